package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// summarized runs a function with os.Stderr replaced. It condenses kustomize's warnings, one for each deprecated field
// of each base, into one line, and forwards all other output to errs.
func summarized[T any](errs io.Writer, read func() (T, error)) (T, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return read()
	}
	defer from.Close()
	counted := make(chan int)
	go func() { counted <- forward(errs, from) }()
	defer func(before *os.File) {
		os.Stderr = before
		to.Close()
		if n := <-counted; n > 0 {
			fmt.Fprintf(errs, "kustomize warns of deprecated fields (%d): kustomize edit fix replaces them\n", n)
		}
	}(os.Stderr)
	os.Stderr = to
	return read()
}

// forward copies lines, except warnings about deprecated fields, and returns the number of those warnings.
func forward(to io.Writer, from io.Reader) int {
	warnings := 0
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if strings.HasPrefix(line, "# Warning: ") && strings.Contains(line, " is deprecated. ") {
			warnings++
		} else {
			fmt.Fprint(to, line)
		}
		if err != nil {
			return warnings
		}
	}
}
