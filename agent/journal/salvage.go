package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// Salvage opens the journal of a released claim, or creates it. It moves a damaged record file aside (see Aside). It
// keeps the readable records, except results of cleaning, so that the host is cleaned again.
func Salvage(base, claim string) (*Journal, error) {
	j, err := Open(base, claim)
	if !errors.Is(err, ErrDamaged) {
		return j, err
	}
	if err := salvage(filepath.Join(base, directory(claim)), claim); err != nil {
		return nil, err
	}
	return Open(base, claim)
}

// Salvage opens the view's journal, like the function Salvage.
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

// salvage moves a damaged record file aside and writes a new one. A crash in between leaves the damaged one, which is
// salvaged again.
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
		if json.Unmarshal(line, &r) == nil && r.Event != eventOpen && r.Event != eventCleaned &&
			len(kept)+len(line) < readLimit {
			kept = append(append(kept, line...), '\n')
		}
	}
	if !old.outcome.Ended {
		// The bootstrap data must never be executed again, whatever an old copy of the CapstanHost says.
		last, err := json.Marshal(record{Time: now, Event: eventFailed, Step: "journal", Message: ErrDamaged.Error()})
		if err != nil {
			return fmt.Errorf("salvaging the journal: %w", err)
		}
		kept = append(append(kept, last...), '\n')
	}
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	// Use a link, because the damaged file may not be readable.
	if err := os.Link(path, aside); err != nil {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	if err := atomicfile.Write(path, kept, 0o600); err != nil {
		return fmt.Errorf("salvaging the journal: %w", err)
	}
	return syncDir(dir)
}
