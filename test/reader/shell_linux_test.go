package reader

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/leftovers"
)

const (
	// limit is the time limit for one command; the longest one builds two Kubernetes bundles.
	limit = 25 * time.Minute
	// serving limits the wait until a server answers; go run may have to build it first.
	serving = 5 * time.Minute
)

// person is a reader of a page who types its commands.
type person struct {
	*testing.T
	page, root, home string
	shell            shell
	// busy is the block whose server runs in the shell.
	busy *block
}

// shell is the state that commands leave for later commands.
type shell struct {
	dir         string
	environment []string
}

// sitDown returns a person with a new home directory of Capstan, which must be gone at the end of the page.
func sitDown(t *testing.T, page string) *person {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "capstan-docs-") // short, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	p := &person{T: t, page: page, root: root, home: home}
	p.shell = p.newShell()
	t.Cleanup(p.leave)
	return p
}

// newShell returns a new shell as a reader opens it: at the root of the repository, without the exports of earlier
// blocks.
func (p *person) newShell() shell {
	environment := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "MAKE") || strings.HasPrefix(e, "MFLAGS=") || strings.HasPrefix(e, "CAPSTAN_")
	})
	return shell{dir: p.root, environment: append(environment, "CAPSTAN_HOME="+p.home)}
}

// follow types the commands of a block.
func (p *person) follow(b block) {
	p.Helper()
	if b.anotherShell {
		p.shell, p.busy = p.newShell(), nil
	}
	if p.busy != nil {
		p.Fatalf("%s:%d: a server runs in this shell since line %d: mark the block %q", p.page, b.line, p.busy.line,
			markAnotherShell)
	}
	for i, c := range b.commands {
		if b.serves != "" && i == len(b.commands)-1 {
			p.serve(c, b.serves)
			p.busy = &b
			return
		}
		p.enter(c)
	}
}

// script returns a script that runs a command, and then writes the directory and the environment of the shell to a
// file.
func script(c command, state string) string {
	return "set -eo pipefail\n" + c.text + "\n{ pwd; env -0; } > '" + state + "'\n"
}

// command returns a shell that runs a script in its own process group.
func (p *person) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = p.shell.dir, p.shell.environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// enter runs a command until it exits, and compares its output with the page.
func (p *person) enter(c command) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), limit)
	defer cancel()
	state := filepath.Join(p.TempDir(), "state")
	began := time.Now()
	out, err := p.command(ctx, script(c, state)).CombinedOutput()
	took := time.Since(began).Round(100 * time.Millisecond)
	if err != nil {
		p.Fatalf("%s:%d: %s: %v after %s:\n%s", p.page, c.line, c.text, err, took, out)
	}
	p.Logf("%s:%d: %s  (%s)\n%s", p.page, c.line, c.text, took, out)
	data, err := os.ReadFile(state)
	if err != nil {
		p.Fatal(err)
	}
	dir, environment, _ := strings.Cut(string(data), "\n")
	p.shell = shell{dir: dir, environment: strings.Split(strings.TrimSuffix(environment, "\x00"), "\x00")}
	if len(c.shown) == 0 {
		return
	}
	if err := compare(c.shown, strings.Split(string(out), "\n")); err != nil {
		p.Errorf("%s:%d: %s: %v", p.page, c.line, c.text, err)
	}
}

// serve starts a command that runs until the test ends, and waits until it answers.
func (p *person) serve(c command, url string) {
	p.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.Context()))
	cmd := p.command(ctx, c.text)
	out, err := os.Create(filepath.Join(p.TempDir(), "log"))
	if err != nil {
		p.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	p.Cleanup(func() {
		cancel()
		<-ended
		_ = out.Close()
	})
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	tooLong := time.After(serving)
	for {
		if answer, err := client.Get(url); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		why := "does not answer"
		select {
		case <-again.C:
			continue
		case <-ended:
			why = "ended"
		case <-tooLong:
		}
		log, _ := os.ReadFile(out.Name())
		p.Fatalf("%s:%d: %s: %s at %s:\n%s", p.page, c.line, c.text, why, url, bytes.TrimSpace(log))
	}
}

// leave stops the plane if the page did not, and fails the test if anything is left after that. A page need not delete
// what it creates, but Capstan must be able to.
func (p *person) leave() {
	if _, err := os.Stat(p.home); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		p.shell = p.newShell()
		if out, err := p.command(ctx, "bin/capstan down --delete").CombinedOutput(); err != nil {
			p.Errorf("capstan down --delete: %v\n%s", err, out)
		}
	}
	for _, left := range leftovers.Of(p.home) {
		p.Errorf("left behind: %s", left)
	}
}
