package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// View is the contents of a journal.
type View struct {
	dir, claim string
	damage     error

	steps     map[string]Step
	notes     map[string][]string
	outcome   Outcome
	cleaned   bool
	leftovers []string
}

// Look reads all journals and changes nothing. The View of a journal whose first record never reached the disk has no
// claim. Look reads as much as possible of damaged journals.
func Look(base string) ([]*View, error) {
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the journals: %w", err)
	}
	var views []*View
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		v := newView(filepath.Join(base, entry.Name()))
		f, err := os.Open(filepath.Join(v.dir, file))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is being created or removed, or was never completed
		case err != nil:
			v.damage = fmt.Errorf("%w: %w", ErrDamaged, err)
		default:
			_, _, v.damage = v.read(f)
			f.Close()
		}
		if v.damage != nil && v.claim == "" {
			v.claim = "an unknown claim, journal " + v.dir
		}
		views = append(views, v)
	}
	return views, nil
}

func newView(dir string) *View {
	return &View{dir: dir, steps: map[string]Step{}, notes: map[string][]string{}}
}

// read replays the readable records. It returns their lines, and the size of the file up to the last one. Its error
// wraps ErrDamaged.
func (v *View) read(f io.Reader) (lines [][]byte, size int64, err error) {
	damaged := func(at int64, why string) error {
		return fmt.Errorf("%w at byte %d%s: delete the machine; the agent cleans what the readable part lists, and then a "+
			"person must inspect the host", ErrDamaged, at, why)
	}
	data, readErr := io.ReadAll(io.LimitReader(f, readLimit+reserve+1))
	if readErr != nil {
		err = damaged(int64(len(data)), ", "+readErr.Error())
	} else if len(data) > readLimit+reserve {
		err = damaged(readLimit, " because the file is too large")
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return lines, size, err
		}
		var r record
		if bad := json.Unmarshal(line, &r); bad == nil {
			v.apply(r)
			lines = append(lines, line)
		} else if len(bytes.TrimRight(rest, "\x00")) == 0 {
			return lines, size, err // cut off by a power failure
		} else if err == nil {
			err = damaged(size, "")
		}
		size += int64(len(line)) + 1
		data = rest
	}
}

// apply applies a record to the view.
func (v *View) apply(r record) {
	step := v.steps[r.Step]
	switch r.Event {
	case eventOpen:
		v.claim = r.Claim
		return
	case eventStart:
		step.Starts, step.Mark, step.Finished, step.Status = step.Starts+1, r.Mark, false, 0
		v.steps[r.Step] = step
		if v.outcome.Began.IsZero() {
			v.outcome.Began = r.Time
		}
	case eventFinish:
		step.Finished, step.Status = true, r.Status
		v.steps[r.Step] = step
	case eventNote:
		v.notes[r.Key] = append(v.notes[r.Key], r.Value)
	case eventSucceeded, eventFailed:
		o := &v.outcome
		o.Ended, o.Succeeded, o.Step, o.Message, o.End = true, r.Event == eventSucceeded, r.Step, r.Message, r.Time
	case eventCleaned:
		v.cleaned, v.leftovers = true, r.Leftovers
	}
}

// Claim returns the providerID of the claim.
func (v *View) Claim() string { return v.claim }

// IsOf reports whether the journal belongs to a claim.
func (v *View) IsOf(claim string) bool { return filepath.Base(v.dir) == directory(claim) }

// Damage returns why a part of the journal can't be read, or nil if all of it can.
func (v *View) Damage() error { return v.damage }

// Dir returns the journal's directory.
func (v *View) Dir() string { return v.dir }

// Step returns what is recorded about a step, or the zero Step if it was never started.
func (v *View) Step(name string) Step { return v.steps[name] }

// Began reports whether any step was ever started.
func (v *View) Began() bool { return len(v.steps) > 0 }

// Notes returns the values under a key, oldest first.
func (v *View) Notes(key string) []string { return v.notes[key] }

// Outcome returns how the bootstrap ended.
func (v *View) Outcome() Outcome { return v.outcome }

// Cleaned reports whether the host was cleaned after the claim, and returns what could not be removed.
func (v *View) Cleaned() (bool, []string) { return v.cleaned, v.leftovers }

// Carries reports whether the host may still have something of the claim's machine: because a step began and cleaning
// was not proved complete, or because a part of the journal is unknown.
func (v *View) Carries() bool {
	return v.damage != nil || v.Aside() != "" || v.Began() && (!v.cleaned || len(v.leftovers) > 0)
}

// Aside returns the path of the damaged record file that was moved aside; empty if there is none.
func (v *View) Aside() string {
	path := filepath.Join(v.dir, asideFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// Remove deletes the journal, which must not be open.
func (v *View) Remove() error {
	if err := os.RemoveAll(v.dir); err != nil {
		return fmt.Errorf("removing the journal: %w", err)
	}
	return nil
}
