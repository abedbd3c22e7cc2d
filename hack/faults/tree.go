package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// limit is how long one fault may take, including builds and its test.
const limit = 15 * time.Minute

// tree is a copy of the sources in which faults are planted.
type tree struct{ root, dir string }

// plant creates the copy: a work tree of the commit that is checked out, with the tools, bundles and programs that are
// already built.
func plant(ctx context.Context, root, dir string) (*tree, error) {
	t := &tree{root: root, dir: dir}
	if err := t.remove(ctx); err != nil {
		return nil, err
	}
	if err := run(ctx, root, "git", "worktree", "add", "--quiet", "--detach", t.dir, "HEAD"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(t.dir, "bin"), 0o755); err != nil {
		return nil, err
	}
	for _, shared := range []string{"bundles", "tools"} {
		if err := os.Symlink(filepath.Join(root, "bin", shared), filepath.Join(t.dir, "bin", shared)); err != nil {
			return nil, err
		}
	}
	programs, err := filepath.Glob(filepath.Join(root, "bin", "capstan*"))
	if err != nil {
		return nil, err
	}
	if len(programs) > 0 {
		if err := run(ctx, root, "cp", append(programs, filepath.Join(t.dir, "bin"))...); err != nil {
			return nil, err
		}
	}
	return t, run(ctx, t.dir, "go", "run", "./hack/manifests")
}

// remove removes the copy.
func (t *tree) remove(ctx context.Context) error {
	if _, err := os.Stat(t.dir); errors.Is(err, os.ErrNotExist) {
		return run(ctx, t.root, "git", "worktree", "prune")
	}
	return run(ctx, t.root, "git", "worktree", "remove", "--force", t.dir)
}

// outcome says whether a fault was found.
type outcome string

const (
	found       outcome = "found"
	notFound    outcome = "NOT FOUND"
	notRun      outcome = "NOT RUN"
	notCompiled outcome = "DOES NOT COMPILE"
)

// try plants a fault, runs its test, and removes the fault.
func (t *tree) try(ctx context.Context, f fault) (_ outcome, _ string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	text, err := f.apply(t.dir)
	if err != nil {
		return "", "", err
	}
	path := filepath.Join(t.dir, f.File)
	before, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return "", "", err
	}
	defer func() {
		err = errors.Join(err, os.WriteFile(path, before, 0o644), t.restore(context.WithoutCancel(ctx), f.Build))
	}()
	if err := t.build(ctx, f.Build); err != nil {
		return notCompiled, err.Error(), nil
	}
	pkg, name := f.split()
	// Vet does not affect whether the test notices the fault, and takes as long as the compiler.
	test := exec.CommandContext(ctx,
		"go", "test", "-json", "-vet=off", "-count=1", "-timeout", "12m", "-run", "^"+name+"$", pkg)
	test.Dir = t.dir
	var errs bytes.Buffer
	test.Stderr = &errs
	out, runErr := test.Output()
	result, detail := judge(out, name)
	if result == "" {
		return "", "", fmt.Errorf("running %s: %w\n%s", f.Test, runErr, errs.String())
	}
	return result, detail, nil
}

// build builds programs in the copy.
func (t *tree) build(ctx context.Context, programs []string) error {
	for _, program := range programs {
		if err := run(ctx, t.dir, "go", "build", "-o", "bin/"+program, "./cmd/"+program); err != nil {
			return err
		}
	}
	return nil
}

// restore restores the programs without the fault: it copies those that were built before, and builds the others again.
func (t *tree) restore(ctx context.Context, programs []string) error {
	for _, program := range programs {
		from, to := filepath.Join(t.root, "bin", program), filepath.Join(t.dir, "bin", program)
		if _, err := os.Stat(from); err != nil {
			if err := t.build(ctx, []string{program}); err != nil {
				return err
			}
		} else if err := run(ctx, t.dir, "cp", "--remove-destination", from, to); err != nil {
			return err
		}
	}
	return nil
}

// said matches a line that a test writes. timed matches such a line if it ends with the duration of a command; it is
// then not a failure.
var (
	said  = regexp.MustCompile(`_test\.go:\d+: `)
	timed = regexp.MustCompile(`: [0-9.]+m?s\s*$`)
)

// judge reads the events of go test -json. It returns whether the test failed, and the first line that says why, or an
// empty outcome if the events do not say.
func judge(events []byte, name string) (outcome, string) {
	var result outcome
	detail := ""
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		mine := e.Test == name || strings.HasPrefix(e.Test, name+"/")
		switch {
		case e.Action == "build-fail":
			return notCompiled, detail
		case e.Action == "build-output" && detail == "" && !strings.HasPrefix(e.Output, "#"):
			detail = strings.TrimSpace(e.Output)
		case e.Action == "output" && mine && detail == "" && said.MatchString(e.Output) && !timed.MatchString(e.Output):
			detail = strings.TrimSpace(e.Output)
		case e.Action == "fail" && e.Test == name:
			result = found
		case e.Action == "pass" && e.Test == name:
			result = notFound
		case e.Action == "skip" && e.Test == name:
			result = notRun
		case e.Action == "fail" && e.Test == "" && result == "":
			// The package failed without a verdict of the test: it crashed, which counts as noticing.
			result = found
		case e.Action == "pass" && e.Test == "" && result == "":
			result = notRun
		}
	}
	if result == notFound || result == notRun {
		detail = ""
	}
	return result, detail
}

// run runs a command; the error contains its output.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
