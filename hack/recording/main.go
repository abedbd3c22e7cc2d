// Command recording runs a command in a terminal of its own and writes what appears there as an asciicast, version 2,
// which asciinema plays:
//
//	go run ./hack/recording -o docs/demo.cast -- hack/demo
//
// Waits longer than -idle are cut short, so that people need not wait for machines. The file is complete or absent: it
// is written after the command has succeeded.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

// maxBytes limits the size of a recording.
const maxBytes = 16 << 20

type options struct {
	title         string
	columns, rows uint16
	// idle is the longest pause of the recording.
	idle time.Duration
	// hidden is the directory to show as "~".
	hidden string
}

func main() {
	out := flag.String("o", "", "file to write (required)")
	title := flag.String("title", "", "title of the recording")
	idle := flag.Duration("idle", 2*time.Second, "longest pause that stays")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: recording -o FILE [-title TEXT] [-idle DURATION] -- COMMAND [ARGUMENT]...")
		os.Exit(2)
	}
	if err := run(*out, *title, *idle, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(out, title string, idle time.Duration, argv []string) error {
	directory, err := os.Getwd()
	if err != nil {
		return err
	}
	o := options{title: title, columns: 120, rows: 32, idle: idle, hidden: directory}
	data, err := record(o, os.Stdout, argv)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, data, 0o644)
}

// record runs a command, copies its output to the writer shown, and returns the recording. A command that fails is an
// error.
func record(o options, shown io.Writer, argv []string) ([]byte, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: o.rows, Cols: o.columns})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	c := newCast(o, time.Now())
	buffer := make([]byte, 32<<10)
	var failed error
	for failed == nil {
		n, err := terminal.Read(buffer)
		if n > 0 {
			_, _ = shown.Write(buffer[:n])
			failed = c.add(time.Now(), buffer[:n])
		}
		// A terminal returns EIO once its program has exited.
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) {
			break
		}
		failed = errors.Join(failed, err)
	}
	// Closing the terminal hangs up a program that still runs.
	failed = errors.Join(failed, terminal.Close())
	if err := cmd.Wait(); err != nil {
		failed = errors.Join(failed, fmt.Errorf("%s: %w", strings.Join(argv, " "), err))
	}
	return c.finish(), failed
}

// cast is a recording in progress.
type cast struct {
	o     options
	text  []byte
	began time.Time
	last  time.Time
	// cut is the time by which pauses were shortened.
	cut time.Duration
	// rest is the start of an incomplete character.
	rest []byte
}

func newCast(o options, now time.Time) *cast {
	header, _ := json.Marshal(map[string]any{
		"version": 2, "width": o.columns, "height": o.rows, "timestamp": now.Unix(), "title": o.title,
		"env": map[string]string{"TERM": "xterm-256color"},
	})
	return &cast{o: o, text: append(header, '\n'), began: now, last: now}
}

// add appends output with its time. It fails if the recording becomes too large.
func (c *cast) add(now time.Time, data []byte) error {
	if pause := now.Sub(c.last); pause > c.o.idle {
		c.cut += pause - c.o.idle
	}
	c.last = now
	data = append(c.rest, data...)
	whole := len(data)
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if utf8.RuneStart(data[len(data)-back]) {
			if !utf8.FullRune(data[len(data)-back:]) {
				whole = len(data) - back
			}
			break
		}
	}
	c.rest = append([]byte(nil), data[whole:]...)
	return c.event(now, string(data[:whole]))
}

func (c *cast) event(now time.Time, text string) error {
	if text == "" {
		return nil
	}
	if c.o.hidden != "" {
		text = strings.ReplaceAll(text, c.o.hidden, "~")
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return err
	}
	c.text = fmt.Appendf(c.text, "[%.3f,\"o\",%s]\n", (now.Sub(c.began) - c.cut).Seconds(), quoted)
	if len(c.text) > maxBytes {
		return fmt.Errorf("the recording is over %d MiB: record a command that prints less", maxBytes>>20)
	}
	return nil
}

// finish returns the recording.
func (c *cast) finish() []byte {
	_ = c.event(c.last, string(c.rest))
	c.rest = nil
	return c.text
}
