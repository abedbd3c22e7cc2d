// Package nft implements the parts of the nft command that kube-proxy uses, so that hosts without that program have
// Services.
//
// kube-proxy's nftables mode runs nft for each change: it writes a transaction to standard input and reads lists as
// JSON. This package understands only the text that kube-proxy of the supported Kubernetes minors writes: its tables,
// chains, sets, maps, elements and rules. It refuses everything else without changing anything, because a
// half-understood rule would be worse than none.
package nft

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// version is the version that kube-proxy sees. It must not be older than 1.0.1, the oldest nft that kube-proxy accepts.
const version = "nftables v1.0.9 (capstan-nft)"

// maxInput bounds a transaction. 10,000 Services need 8 MiB.
const maxInput = 64 << 20

// Main runs the command with these arguments and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := run(args, stdin, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "Error: %s\n", strings.TrimSpace(message(err)))
		return 1
	}
	return 0
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case slices.Equal(args, []string{"--version"}):
		_, err := fmt.Fprintln(stdout, version)
		return err
	case slices.Equal(args, []string{"-f", "-"}):
		return transact(stdin, false)
	case slices.Equal(args, []string{"--check", "-f", "-"}):
		return transact(stdin, true)
	}
	words, ok := strings.CutPrefix(strings.Join(args, " "), "--json ")
	if words = strings.TrimPrefix(words, "--terse "); ok {
		if f := strings.Fields(words); len(f) >= 4 && f[0] == "list" {
			return list(stdout, f[1:])
		}
	}
	return fmt.Errorf("capstan-nft does only what kube-proxy needs: --version, [--check] -f -, "+
		"--json [--terse] list table|set|map; it was called with %q", args)
}

// transact reads commands from the reader in, and executes them atomically. A check only finds out whether that would
// succeed.
func transact(in io.Reader, check bool) error {
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return fmt.Errorf("reading the transaction: %w", err)
	}
	if len(text) > maxInput {
		return fmt.Errorf("the transaction has more than %d MiB", maxInput>>20)
	}
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	b := &batch{sets: map[setName]setType{}, find: c.setType}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if err := b.read(string(line)); err != nil {
			return fmt.Errorf("line %d, %q: %w", number, bytes.TrimSpace(line), err)
		}
	}
	at, err := c.transact(b.messages, check)
	if err != nil && at >= 0 {
		return fmt.Errorf("the kernel refuses %q: %w", b.messages[at].command, err)
	}
	return err
}

// message returns the text of an error. It uses nft's words, from which kube-proxy recognizes what is missing or exists
// already.
func message(err error) string {
	var code unix.Errno
	text := err.Error()
	if !errors.As(err, &code) {
		return text
	}
	words := code.Error()
	switch code {
	case unix.ENOENT:
		return strings.ReplaceAll(text, words, "No such file or directory")
	case unix.EEXIST:
		return strings.ReplaceAll(text, words, "File exists")
	case unix.EMSGSIZE:
		return text + ": the transaction is larger than this user may send (net.core.wmem_max): " +
			"there are too many Services for a host of a rootless dock"
	}
	return text
}
