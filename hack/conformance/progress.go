package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/capstan-dev/capstan/test/verdicts"
)

// tries is how often a spec that does not pass is run.
const tries = 3

// progress is what is known about the specs of one commit. It is stored on disk.
type progress struct {
	file string
	mu   sync.Mutex // locked while a verdict is added
	// Commit is the commit of our sources, with "+" if files differ from it.
	Commit string `json:"commit"`
	// Level is how many ids the containers of the last part could have.
	Level verdicts.Level `json:"level,omitempty"`
	// Attempts are the verdicts about each spec, in the order of the attempts.
	Attempts map[string][]verdicts.Verdict `json:"attempts"`
	// Broken counts, for each spec, the processes that exited without a verdict about it.
	Broken map[string]int `json:"broken,omitempty"`
}

// progress reads the progress of the run of this commit, or begins a new run.
func (o *options) progress(ctx context.Context) (*progress, error) {
	commit, err := o.commit(ctx)
	if err != nil {
		return nil, err
	}
	if o.again {
		if err := os.RemoveAll(o.reports()); err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.reports(), 0o755); err != nil {
		return nil, err
	}
	p := &progress{file: filepath.Join(o.reports(), "progress.json")}
	data, err := os.ReadFile(p.file)
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", p.file, err)
	}
	if p.Commit != "" && p.Commit != commit && !o.again {
		return nil, fmt.Errorf("%s is about commit %s, but the sources are of %s: start over with -again", p.file,
			p.Commit, commit)
	}
	if p.Commit != commit {
		p.Attempts, p.Broken = nil, nil
	}
	p.Commit = commit
	if p.Attempts == nil {
		p.Attempts = map[string][]verdicts.Verdict{}
	}
	if p.Broken == nil {
		p.Broken = map[string]int{}
	}
	return p, nil
}

// commit returns the commit of the sources.
func (o *options) commit(ctx context.Context) (string, error) {
	git := func(args ...string) (string, error) {
		// This may run as a user who does not own the sources.
		cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=" + o.root}, args...)...)
		cmd.Dir = o.root
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	head, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	changed, err := git("status", "--porcelain")
	if changed != "" {
		head += "+"
	}
	return head, err
}

// done reports whether a spec need not run again: its first attempt passed or was skipped, or it has run three times.
func (p *progress) done(name string) bool {
	a := p.Attempts[name]
	return len(a) > 0 && a[0].Outcome != verdicts.Failed || len(a) >= tries
}

// left returns the specs that must still run.
func (p *progress) left(chosen []string) []string {
	return slices.DeleteFunc(slices.Clone(chosen), p.done)
}

// next returns the specs to run next, and whether they must run one at a time. Specs that never ran come first, then
// those that failed. Of those that failed, the specs that are expected to fail come first, and run at the same time as
// others, as before. The others run alone, so that a failure because of load is not repeated.
func (p *progress) next(chosen []string, expected []verdicts.Expected) (phase []string, alone bool) {
	left := p.left(chosen)
	for _, retry := range []bool{false, true} {
		for _, serial := range []bool{false, true} {
			for _, name := range left {
				failed := len(p.Attempts[name]) > 0
				single := mustBeAlone(name)
				if failed && !fails(expected, name, p.Level) {
					single = true
				}
				if failed == retry && single == serial && p.Broken[name] < tries {
					phase = append(phase, name)
				}
			}
			if len(phase) > 0 {
				return phase, serial
			}
		}
	}
	return nil, false
}

// fails reports whether a spec is expected to fail at a level. Pure.
func fails(expected []verdicts.Expected, name string, level verdicts.Level) bool {
	e, known := verdicts.Find(expected, name, level)
	return known && e.Outcome == verdicts.Failed
}

// add records the verdicts about the specs of one process. A spec without a verdict counts as broken.
func (p *progress) add(list []string, got []verdicts.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]bool{}
	for _, v := range got {
		if slices.Contains(list, v.Name) {
			p.Attempts[v.Name] = append(p.Attempts[v.Name], v)
			seen[v.Name] = true
		}
	}
	for _, name := range list {
		if !seen[name] {
			p.Broken[name]++
		}
	}
	data, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(p.file, data, 0o644)
}

// verdicts returns the final verdict about each spec that ran: the one that most attempts have.
func (p *progress) verdicts(chosen []string) []verdicts.Verdict {
	var all []verdicts.Verdict
	for _, name := range chosen {
		a := p.Attempts[name]
		if len(a) == 0 {
			continue
		}
		final := a[0]
		if verdicts.Count(a, verdicts.Passed)*2 > len(a) {
			final = a[len(a)-1]
			for _, v := range a {
				if v.Outcome == verdicts.Passed {
					final = v
				}
			}
		}
		all = append(all, final)
	}
	return all
}

// unsteady returns the specs whose attempts differ.
func (p *progress) unsteady() []string {
	var names []string
	for name, a := range p.Attempts {
		if verdicts.Count(a, a[0].Outcome) != len(a) {
			names = append(
				names,
				fmt.Sprintf("%s (passed %d of %d times)", name, verdicts.Count(a, verdicts.Passed), len(a)),
			)
		}
	}
	slices.Sort(names)
	return names
}
