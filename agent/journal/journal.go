// Package journal remembers, through crashes and reboots, what the agent did for each claim of its host.
//
// The journal of a claim is a folder with the file steps.jsonl, one JSON record a line, each on disk before the agent goes on; beside it lie
// things that must live as long as the journal. A step that was started but did not finish was interrupted.
package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

const (
	// file is the name of the record file in a journal's folder.
	file = "steps.jsonl"
	// asideFile is the name of a damaged record file that was put aside.
	asideFile = "steps.jsonl.damaged"
)

const (
	// sizeLimit bounds the record file, in bytes: ten thousands of records, far more than any bootstrap makes.
	sizeLimit = 16 << 20
	// reserve is what results may take beyond sizeLimit: that of the bootstrap, and one of cleaning.
	reserve = 1 << 20
)

var (
	// ErrDamaged: the record file can't be read, or not all of it. Salvage opens it.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrFull: the record file has reached its limit. Results can still be written.
	ErrFull = errors.New("the journal is full")
)

// The events of records.
const (
	eventOpen      = "open"
	eventStart     = "start"
	eventFinish    = "finish"
	eventNote      = "note"
	eventSucceeded = "succeeded"
	eventFailed    = "failed"
	eventCleaned   = "cleaned"
)

// record is one line of the journal.
type record struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	// Claim is the claim's providerID, in the first record.
	Claim string `json:"claim,omitempty"`
	// Step is the name of the step; Mark identifies one run of it.
	Step   string `json:"step,omitempty"`
	Mark   string `json:"mark,omitempty"`
	Status int    `json:"status,omitempty"`
	// Key and Value are of a note.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Message is why it failed.
	Message   string   `json:"message,omitempty"`
	Leftovers []string `json:"leftovers,omitempty"`
}

// Step is what the journal knows of one step.
type Step struct {
	// Starts is how often it was started.
	Starts int
	// Mark identifies the last run.
	Mark string
	// Finished is whether the last run came to its end, with Status.
	Finished bool
	// Status is the exit status of a command.
	Status int
}

// Outcome is how a bootstrap ended.
type Outcome struct {
	// Ended is whether it ended; Succeeded how.
	Ended, Succeeded bool
	// Step and Message say what failed, or what was noteworthy.
	Step, Message string
	// Began and End are the times of the first and last record of the bootstrap.
	Began, End time.Time
}

// View is what a journal knows.
type View struct {
	dir, claim string
	damage     error

	steps     map[string]Step
	notes     map[string][]string
	outcome   Outcome
	cleaned   bool
	leftovers []string
}

// Journal is the journal of one claim, open for writing. It is not safe for concurrent use, and a claim's journal may be open only once;
// Look may be called at any time.
type Journal struct {
	View
	f    *os.File
	size int64
	// result is where the last record begins if it is a result of cleaning; else 0.
	result int64
}

// Open opens the journal of a claim, or begins one. base is the folder of all journals.
func Open(base, claim string) (*Journal, error) {
	dir := filepath.Join(base, folder(claim))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	j, err := open(dir)
	if err != nil {
		return nil, err
	}
	if j.claim == "" {
		if err := errors.Join(j.add(record{Event: eventOpen, Claim: claim}), syncDir(dir), syncDir(base)); err != nil {
			j.Close()
			return nil, err
		}
	}
	if j.claim != claim {
		j.Close()
		return nil, fmt.Errorf("opening the journal %s: it is of another claim", dir)
	}
	return j, nil
}

// folder returns the name of a claim's folder: readable, and different for different claims.
func folder(claim string) string {
	sum := sha256.Sum256([]byte(claim))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.TrimPrefix(claim, "capstan://"))
	return readable[:min(len(readable), 120)] + "-" + hex.EncodeToString(sum[:4])
}

// Look reads all journals and changes nothing. Folders whose first record never reached the disk have no claim. What is damaged is read as
// far as it can be.
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
		case errors.Is(err, fs.ErrNotExist): // it is being begun or removed, or never was begun
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

// Salvage opens the journal of a released claim, or begins one. A damaged record file is put aside, see Aside; what can be read of it is kept,
// apart from results of cleaning, so that the host is cleaned again.
func Salvage(base, claim string) (*Journal, error) {
	j, err := Open(base, claim)
	if !errors.Is(err, ErrDamaged) {
		return j, err
	}
	if err := salvage(filepath.Join(base, folder(claim)), claim); err != nil {
		return nil, err
	}
	return Open(base, claim)
}

// Salvage opens the journal as the function Salvage does.
func (v *View) Salvage() (*Journal, error) {
	j, err := open(v.dir)
	if !errors.Is(err, ErrDamaged) {
		return j, err
	}
	if err := salvage(v.dir, v.claim); err != nil {
		return nil, err
	}
	return open(v.dir)
}

// salvage puts a damaged record file aside and writes a new one. A crash in between leaves the damaged one, to be salvaged again.
func salvage(dir, claim string) error {
	path, aside := filepath.Join(dir, file), filepath.Join(dir, asideFile)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	defer f.Close()
	old := newView(dir)
	lines, _, _ := old.read(f)
	now := time.Now().UTC().Truncate(time.Microsecond)
	first, err := json.Marshal(record{Time: now, Event: eventOpen, Claim: claim})
	if err != nil {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	kept := append(first, '\n')
	for _, line := range lines {
		var r record
		if json.Unmarshal(line, &r) == nil && r.Event != eventOpen && r.Event != eventCleaned && len(kept)+len(line) < sizeLimit {
			kept = append(append(kept, line...), '\n')
		}
	}
	if !old.outcome.Ended {
		// The data must never be run again, whatever an old copy of the host says.
		last, err := json.Marshal(record{Time: now, Event: eventFailed, Step: "journal", Message: ErrDamaged.Error()})
		if err != nil {
			return fmt.Errorf("salvaging the journal: %w", err)
		}
		kept = append(append(kept, last...), '\n')
	}
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	// A link, because what is damaged may not be readable.
	if err := os.Link(path, aside); err != nil {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	if err := atomicfile.Write(path, kept, 0o600); err != nil {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	return syncDir(dir)
}

func newView(dir string) *View {
	return &View{dir: dir, steps: map[string]Step{}, notes: map[string][]string{}}
}

func open(dir string) (*Journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	j := &Journal{View: *newView(dir), f: f}
	if err := j.recall(); err != nil {
		f.Close()
		return nil, fmt.Errorf("reading the journal %s: %w", dir, err)
	}
	return j, nil
}

// recall replays the records and takes off what follows the last whole one: it was being written when the power went, and never happened.
func (j *Journal) recall() error {
	lines, size, err := j.read(j.f)
	if err != nil {
		return err
	}
	j.size = size
	if len(lines) > 0 && j.cleaned {
		var last record
		if line := lines[len(lines)-1]; json.Unmarshal(line, &last) == nil && last.Event == eventCleaned {
			j.result = size - int64(len(line)) - 1
		}
	}
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	_, err = j.f.Seek(j.size, io.SeekStart)
	return err
}

// read replays the records that can be read and returns their lines, and the size of the file up to the last one. The error wraps ErrDamaged.
func (v *View) read(f io.Reader) (lines [][]byte, size int64, err error) {
	damaged := func(at int64, why string) error {
		return fmt.Errorf("%w at byte %d%s: delete the machine; the host is cleaned by what can be read, and then somebody must look at it", ErrDamaged, at, why)
	}
	data, readErr := io.ReadAll(io.LimitReader(f, sizeLimit+reserve+1))
	if readErr != nil {
		err = damaged(int64(len(data)), ", "+readErr.Error())
	} else if len(data) > sizeLimit+reserve {
		err = damaged(sizeLimit, ", it is too large")
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
			return lines, size, err // torn by the loss of power
		} else if err == nil {
			err = damaged(size, "")
		}
		size += int64(len(line)) + 1
		data = rest
	}
}

// apply changes the view as a record says.
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

// add writes a record to the disk, and then applies it.
func (j *Journal) add(r record) error {
	r.Time = time.Now().UTC().Truncate(time.Microsecond)
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	line = append(line, '\n')
	limit := int64(sizeLimit)
	if r.Event == eventSucceeded || r.Event == eventFailed || r.Event == eventCleaned {
		limit += reserve
	}
	if j.size+int64(len(line)) > limit {
		return fmt.Errorf("writing the journal %s: %w, it has reached %d bytes; delete the machine", j.dir, ErrFull, sizeLimit)
	}
	if _, err := j.f.Write(line); err != nil {
		// A part may have been written: take it back, so that the next record stands on a line of its own.
		_ = j.f.Truncate(j.size)
		_, _ = j.f.Seek(j.size, io.SeekStart)
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := j.f.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	j.result = 0
	if r.Event == eventCleaned {
		j.result = j.size
	}
	j.size += int64(len(line))
	j.apply(r)
	return nil
}

// Close closes the journal.
func (j *Journal) Close() error { return j.f.Close() }

// Claim returns the providerID of the claim.
func (v *View) Claim() string { return v.claim }

// IsOf reports whether the journal is that of a claim.
func (v *View) IsOf(claim string) bool { return filepath.Base(v.dir) == folder(claim) }

// Damage returns why not all of the journal can be read; nil if it can.
func (v *View) Damage() error { return v.damage }

// Dir returns the journal's folder.
func (v *View) Dir() string { return v.dir }

// Step returns what is known of a step; the zero Step if it was never started.
func (v *View) Step(name string) Step { return v.steps[name] }

// Began reports whether any step was ever started.
func (v *View) Began() bool { return len(v.steps) > 0 }

// Start records that a step starts. mark identifies this run of it.
func (j *Journal) Start(step, mark string) error {
	return j.add(record{Event: eventStart, Step: step, Mark: mark})
}

// Finish records that a step came to its end, with the exit status of a command.
func (j *Journal) Finish(step string, status int) error {
	return j.add(record{Event: eventFinish, Step: step, Status: status})
}

// Note remembers a value under a key. A value that is remembered already is not repeated.
func (j *Journal) Note(key, value string) error {
	for _, known := range j.notes[key] {
		if known == value {
			return nil
		}
	}
	return j.add(record{Event: eventNote, Key: key, Value: value})
}

// Notes returns the values under a key, oldest first.
func (v *View) Notes(key string) []string { return v.notes[key] }

// Outcome returns how the bootstrap ended.
func (v *View) Outcome() Outcome { return v.outcome }

// Succeed records that the bootstrap succeeded; message may hold what was noteworthy.
func (j *Journal) Succeed(message string) error {
	return j.add(record{Event: eventSucceeded, Message: message})
}

// Fail records that the bootstrap failed for good.
func (j *Journal) Fail(step, message string) error {
	return j.add(record{Event: eventFailed, Step: step, Message: message})
}

// Cleaned returns whether the host was cleaned after the claim, and what could not be removed.
func (v *View) Cleaned() (bool, []string) { return v.cleaned, v.leftovers }

// Carries reports whether the host may have something of the claim's machine: it was begun and not proved clean, or not all is known of it.
func (v *View) Carries() bool {
	return v.damage != nil || v.Aside() != "" || v.Began() && (!v.cleaned || len(v.leftovers) > 0)
}

// Clean records that the host was cleaned, and what could not be removed.
func (j *Journal) Clean(leftovers []string) error {
	if j.cleaned && strings.Join(j.leftovers, "\n") == strings.Join(leftovers, "\n") {
		return nil
	}
	if j.size > sizeLimit && j.result > 0 {
		// There is room for one. Without any, cleaning is repeated.
		if err := j.f.Truncate(j.result); err != nil {
			return fmt.Errorf("writing the journal: %w", err)
		}
		if _, err := j.f.Seek(j.result, io.SeekStart); err != nil {
			return fmt.Errorf("writing the journal: %w", err)
		}
		j.size, j.result, j.cleaned, j.leftovers = j.result, 0, false, nil
	}
	return j.add(record{Event: eventCleaned, Leftovers: leftovers})
}

// Aside returns the path of the damaged record file that was put aside; empty if there is none.
func (v *View) Aside() string {
	path := filepath.Join(v.dir, asideFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// Strip deletes all that lies beside the records.
func (j *Journal) Strip() error {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return fmt.Errorf("stripping the journal: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if entry.Name() != file {
			errs = append(errs, os.RemoveAll(filepath.Join(j.dir, entry.Name())))
		}
	}
	return errors.Join(append(errs, syncDir(j.dir))...)
}

// Remove deletes the journal, which must not be open.
func (v *View) Remove() error {
	if err := os.RemoveAll(v.dir); err != nil {
		return fmt.Errorf("removing the journal: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}
