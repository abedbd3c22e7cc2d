// Package steps shows the progress of a long operation to a person: one line for each step, ticked when it is done,
// with the time it took. On a terminal the current step is redrawn with what it waits for; elsewhere only changes are
// printed.
package steps

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/text"
)

// Printer prints steps. The zero value is not usable; make one with New.
type Printer struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	name     string
	detail   string
	started  time.Time
	now      func() time.Time
}

// New returns a Printer that writes to out. Lines are redrawn only if out is a terminal.
func New(out io.Writer) *Printer {
	p := &Printer{out: out, now: time.Now}
	if f, ok := out.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		p.terminal = err == nil
	}
	return p
}

// Run runs one step: it prints name, calls do, and prints the outcome with the time it took. do may call the function
// it gets to say what it waits for. The error of do is returned unchanged.
func (p *Printer) Run(name string, do func(detail func(string)) error) error {
	p.Start(name)
	err := do(p.Detail)
	if err != nil {
		p.Fail()
		return err
	}
	p.Done()
	return nil
}

// Start begins a step. A step that was not ended is ended as done.
func (p *Printer) Start(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name != "" {
		p.end("✓")
	}
	p.name, p.detail, p.started = text.Clean(name), "", p.now()
	if p.terminal {
		p.draw()
	}
}

// Detail says what the current step waits for. Repeating the same words prints nothing.
func (p *Printer) Detail(detail string) {
	detail = text.Clean(detail)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == "" || detail == p.detail {
		return
	}
	p.detail = detail
	if p.terminal {
		p.draw()
		return
	}
	if detail != "" {
		fmt.Fprintf(p.out, "  … %s: %s\n", p.name, detail)
	}
}

// Done ends the current step with a tick.
func (p *Printer) Done() { p.finish("✓") }

// Fail ends the current step with a cross.
func (p *Printer) Fail() { p.finish("✗") }

func (p *Printer) finish(mark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name != "" {
		p.end(mark)
	}
}

func (p *Printer) end(mark string) {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	took := p.now().Sub(p.started)
	fmt.Fprintf(p.out, "%s %s  %s\n", mark, p.name, took.Round(100*time.Millisecond))
	p.name = ""
}

func (p *Printer) draw() {
	line := "… " + p.name
	if p.detail != "" {
		line += ": " + p.detail
	}
	if width := 110; len([]rune(line)) > width {
		line = string([]rune(line)[:width-1]) + "…"
	}
	fmt.Fprint(p.out, "\r\x1b[K", strings.ReplaceAll(line, "\n", " "))
}
