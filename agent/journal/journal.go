// Package journal records, across crashes and reboots, what the agent did for each claim of its host.
//
// The journal of a claim is a directory with the file steps.jsonl: one JSON record per line, each synced to disk before
// the agent continues. The directory also holds other data that must live as long as the journal. A step that started
// but did not finish was interrupted. A note is a value that the agent records under a key, for example the name of a
// user that it created.
package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// file is the name of the record file in a journal's directory.
	file = "steps.jsonl"
	// asideFile is the name of a damaged record file that was moved aside.
	asideFile = "steps.jsonl.damaged"
)

const (
	// sizeLimit bounds the record file, in bytes, without the results: ten thousand records, far more than any bootstrap
	// makes. The agent reads the whole file several times when it starts, and keeps it in memory.
	sizeLimit = 4 << 20
	// readLimit is the sizeLimit of earlier versions of the agent, whose record files must stay readable.
	readLimit = 16 << 20
	// reserve is how many bytes beyond readLimit the results may use: the result of the bootstrap, and the result of
	// cleaning.
	reserve = 1 << 20
)

var (
	// ErrDamaged says that the record file, or a part of it, can't be read. Salvage can open it.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrFull says that the record file has reached its limit. Results can still be written.
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
	// Claim is the claim's providerID; only in the first record.
	Claim string `json:"claim,omitempty"`
	// Step is the name of the step; Mark identifies one run of it.
	Step   string `json:"step,omitempty"`
	Mark   string `json:"mark,omitempty"`
	Status int    `json:"status,omitempty"`
	// Key and Value are the contents of a note.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Message says why the step failed.
	Message   string   `json:"message,omitempty"`
	Leftovers []string `json:"leftovers,omitempty"`
}

// Step is what the journal records about one step.
type Step struct {
	// Starts is how often the step was started.
	Starts int
	// Mark identifies the last run.
	Mark string
	// Finished reports whether the last run finished, with Status.
	Finished bool
	// Status is the exit status of a command.
	Status int
}

// Outcome is how a bootstrap ended.
type Outcome struct {
	// Ended reports whether the bootstrap ended; Succeeded reports whether it succeeded.
	Ended, Succeeded bool
	// Step and Message say what failed or was noteworthy.
	Step, Message string
	// Began and End are the times of the first and last record of the bootstrap.
	Began, End time.Time
}

// Journal is the journal of one claim, open for writing. It is not safe for concurrent use, and only one Journal of a
// claim may be open at a time. Look may be called at any time.
type Journal struct {
	View
	f    *os.File
	size int64
	// result is the offset of the last record if that is a result of cleaning; else 0.
	result int64
}

// Open opens the journal of a claim, or creates it. base is the directory of all journals.
func Open(base, claim string) (*Journal, error) {
	dir := filepath.Join(base, directory(claim))
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
		return nil, fmt.Errorf("opening the journal %s: it belongs to another claim", dir)
	}
	return j, nil
}

// directory returns the name of a claim's directory. It is readable and unique to the claim.
func directory(claim string) string {
	sum := sha256.Sum256([]byte(claim))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.TrimPrefix(claim, "capstan://"))
	return readable[:min(len(readable), 120)] + "-" + hex.EncodeToString(sum[:4])
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

// recall replays the records and cuts off a partial last line: it was being written when the power failed, so it never
// took effect.
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

// add writes a record to disk, and then applies it.
func (j *Journal) add(r record) error {
	r.Time = time.Now().UTC().Truncate(time.Microsecond)
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	line = append(line, '\n')
	limit := int64(sizeLimit)
	if r.Event == eventSucceeded || r.Event == eventFailed || r.Event == eventCleaned {
		limit = readLimit + reserve
	}
	if j.size+int64(len(line)) > limit {
		return fmt.Errorf("writing the journal %s: %w: it has reached %d bytes; delete the machine", j.dir,
			ErrFull, sizeLimit)
	}
	_, err = j.f.Write(line)
	if err == nil {
		err = j.f.Sync() // this call may be the one that finds the disk full
	}
	if err != nil {
		// The record may have been written in whole or in part. Remove it, so that a failed record does not reappear
		// after the next start, and the next record begins a new line.
		_ = j.f.Truncate(j.size)
		_, _ = j.f.Seek(j.size, io.SeekStart)
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

// Start records that a step starts. mark identifies this run of it.
func (j *Journal) Start(step, mark string) error {
	return j.add(record{Event: eventStart, Step: step, Mark: mark})
}

// Finish records that a step finished, with the exit status of a command.
func (j *Journal) Finish(step string, status int) error {
	return j.add(record{Event: eventFinish, Step: step, Status: status})
}

// Note records a value under a key, unless it is recorded already.
func (j *Journal) Note(key, value string) error {
	for _, known := range j.notes[key] {
		if known == value {
			return nil
		}
	}
	return j.add(record{Event: eventNote, Key: key, Value: value})
}

// Succeed records that the bootstrap succeeded; message may contain remarks.
func (j *Journal) Succeed(message string) error {
	return j.add(record{Event: eventSucceeded, Message: message})
}

// Fail records that the bootstrap failed permanently.
func (j *Journal) Fail(step, message string) error {
	return j.add(record{Event: eventFailed, Step: step, Message: message})
}

// Clean records that the host was cleaned, and what could not be removed.
func (j *Journal) Clean(leftovers []string) error {
	if j.cleaned && strings.Join(j.leftovers, "\n") == strings.Join(leftovers, "\n") {
		return nil
	}
	if j.size > sizeLimit && j.result > 0 {
		// There is room for only one result, so replace the last one. If a crash leaves none, cleaning is repeated.
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

// Strip deletes everything in the directory except the records.
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
