package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// summarised runs a function with os.Stderr replaced, which kustomize writes warnings to, one for each deprecated field
// of each base: they become one line. All else goes to errs as it comes.
func summarised[T any](errs io.Writer, read func() (T, error)) (T, error) {
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

// forward writes lines on, up to the last one, except for warnings about deprecated fields. It returns how many those
// were.
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
