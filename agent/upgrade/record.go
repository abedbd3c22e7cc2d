package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// recordFile is the name, in the state directory, of the file with the record.
const recordFile = "upgrade.json"

// record counts the trials of one program, so that a broken one is not tried endlessly.
type record struct {
	// Checksum is the program's checksum.
	Checksum string `json:"checksum"`
	// Tries is how many trials have begun; Last is when the last one began.
	Tries int       `json:"tries"`
	Last  time.Time `json:"last"`
}

// again returns how long after its last trial a program is tried again. The first pause is 0, because the first trial
// may have been cut short by a power failure. Pure.
func again(tries int) time.Duration {
	switch {
	case tries <= 1:
		return 0
	case tries == 2:
		return time.Hour
	case tries == 3:
		return 6 * time.Hour
	}
	return 24 * time.Hour
}

// due reports whether the program with this checksum may be tried now. A clock that was set back delays the next trial
// by at most a day. Pure.
func (r record) due(checksum string, now time.Time) bool {
	since := now.Sub(r.Last)
	return r.Checksum != checksum || since >= again(r.Tries) || since < -24*time.Hour
}

// readRecord reads the record; a damaged one counts as missing.
func readRecord(stateDir string) (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Join(stateDir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading the record of upgrades: %w", err)
	}
	if json.Unmarshal(data, &r) != nil {
		return record{}, nil
	}
	return r, nil
}

// begin records that a trial of a program begins.
func begin(stateDir, checksum string, now time.Time) error {
	r, err := readRecord(stateDir)
	if err != nil {
		return err
	}
	if r.Checksum != checksum {
		r = record{Checksum: checksum}
	}
	r.Tries++
	r.Last = now.UTC()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(stateDir, recordFile), data, 0o600); err != nil {
		return fmt.Errorf("recording the upgrade: %w", err)
	}
	return nil
}

// newer reports whether an offered version is later than the agent's own. It returns false if either is not a semantic
// version, such as that of a build by hand. Pure.
func newer(offered, own string) bool {
	o, err := version.ParseSemantic(offered)
	if err != nil {
		return false
	}
	has, err := version.ParseSemantic(own)
	return err == nil && has.LessThan(o)
}
