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
)

// file is the name of the record file in a journal's folder.
const file = "steps.jsonl"

// sizeLimit bounds the record file, in bytes: ten thousands of records, far more than any bootstrap makes.
const sizeLimit = 16 << 20

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

// Journal is the journal of one claim. It is not safe for concurrent use.
type Journal struct {
	dir, claim string
	f          *os.File
	size       int64

	steps     map[string]Step
	notes     map[string][]string
	outcome   Outcome
	cleaned   bool
	leftovers []string
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

// Others returns the claims that have a journal, apart from one. It removes folders whose first record never reached the disk.
func Others(base, claim string) ([]string, error) {
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the journals: %w", err)
	}
	var claims []string
	for _, entry := range entries {
		dir := filepath.Join(base, entry.Name())
		if entry.Name() == folder(claim) || !entry.IsDir() {
			continue
		}
		j, err := open(dir)
		if err != nil {
			return nil, err
		}
		j.Close()
		if j.claim != "" {
			claims = append(claims, j.claim)
		} else if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("removing an empty journal: %w", err)
		}
	}
	return claims, nil
}

func open(dir string) (*Journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	j := &Journal{dir: dir, f: f, steps: map[string]Step{}, notes: map[string][]string{}}
	if err := j.read(); err != nil {
		f.Close()
		return nil, fmt.Errorf("reading the journal %s: %w", dir, err)
	}
	return j, nil
}

// read replays the records. What follows the last whole record was being written when the power went: it never happened.
func (j *Journal) read() error {
	data, err := io.ReadAll(io.LimitReader(j.f, sizeLimit))
	if err != nil {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			break
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			if len(bytes.TrimRight(rest, "\x00")) == 0 {
				break // torn by the loss of power
			}
			return fmt.Errorf("it is damaged at byte %d: release the machine, or move the folder away and clean the host by hand", j.size)
		}
		j.apply(r)
		j.size += int64(len(line)) + 1
		data = rest
	}
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	_, err = j.f.Seek(j.size, io.SeekStart)
	return err
}

// apply changes the state as a record says.
func (j *Journal) apply(r record) {
	step := j.steps[r.Step]
	switch r.Event {
	case eventOpen:
		j.claim = r.Claim
		return
	case eventStart:
		step.Starts, step.Mark, step.Finished, step.Status = step.Starts+1, r.Mark, false, 0
		j.steps[r.Step] = step
		if j.outcome.Began.IsZero() {
			j.outcome.Began = r.Time
		}
	case eventFinish:
		step.Finished, step.Status = true, r.Status
		j.steps[r.Step] = step
	case eventNote:
		j.notes[r.Key] = append(j.notes[r.Key], r.Value)
	case eventSucceeded, eventFailed:
		o := &j.outcome
		o.Ended, o.Succeeded, o.Step, o.Message, o.End = true, r.Event == eventSucceeded, r.Step, r.Message, r.Time
	case eventCleaned:
		j.cleaned, j.leftovers = true, r.Leftovers
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
	if j.size+int64(len(line)) > sizeLimit {
		return fmt.Errorf("writing the journal %s: it has reached %d bytes; release the machine", j.dir, sizeLimit)
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
	j.size += int64(len(line))
	j.apply(r)
	return nil
}

// Close closes the journal.
func (j *Journal) Close() error { return j.f.Close() }

// Claim returns the providerID of the claim.
func (j *Journal) Claim() string { return j.claim }

// Dir returns the journal's folder.
func (j *Journal) Dir() string { return j.dir }

// Step returns what is known of a step; the zero Step if it was never started.
func (j *Journal) Step(name string) Step { return j.steps[name] }

// Began reports whether any step was ever started.
func (j *Journal) Began() bool { return len(j.steps) > 0 }

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
func (j *Journal) Notes(key string) []string { return j.notes[key] }

// Outcome returns how the bootstrap ended.
func (j *Journal) Outcome() Outcome { return j.outcome }

// Succeed records that the bootstrap succeeded; message may hold what was noteworthy.
func (j *Journal) Succeed(message string) error {
	return j.add(record{Event: eventSucceeded, Message: message})
}

// Fail records that the bootstrap failed for good.
func (j *Journal) Fail(step, message string) error {
	return j.add(record{Event: eventFailed, Step: step, Message: message})
}

// Cleaned returns whether the host was cleaned after the claim, and what could not be removed.
func (j *Journal) Cleaned() (bool, []string) { return j.cleaned, j.leftovers }

// Clean records that the host was cleaned, and what could not be removed.
func (j *Journal) Clean(leftovers []string) error {
	if j.cleaned && strings.Join(j.leftovers, "\n") == strings.Join(leftovers, "\n") {
		return nil
	}
	return j.add(record{Event: eventCleaned, Leftovers: leftovers})
}

// Remove closes the journal and deletes it.
func (j *Journal) Remove() error {
	if err := errors.Join(j.Close(), os.RemoveAll(j.dir)); err != nil {
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
