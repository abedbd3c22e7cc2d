// Package steps shows the progress of a long operation: one line for each step. When a step is done, its line gets a
// tick and the time that the step took. On a terminal, the line of the current step is redrawn, and shows what the step
// is waiting for; elsewhere, only changes are printed.
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

// Printer prints steps. Create it with New; the zero value is not usable.
type Printer struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	name     string
	detail   string
	started  time.Time
	now      func() time.Time
}

// New returns a Printer that writes to out. It redraws lines only if out is a terminal.
func New(out io.Writer) *Printer {
	p := &Printer{out: out, now: time.Now}
	if f, ok := out.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		p.terminal = err == nil
	}
	return p
}

// Run runs one step: it prints name, calls the function do, and prints the outcome with the time it took. The function
// may call detail to say what it is waiting for. Run returns the function's error unchanged.
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

// Start starts a step. If another step is in progress, Start marks it as done.
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

// Detail says what the current step is waiting for. Repeating the same text prints nothing.
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

// Done finishes the current step with a tick.
func (p *Printer) Done() { p.finish("✓") }

// Fail finishes the current step with a cross.
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
