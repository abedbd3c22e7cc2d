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

// recordFile is the name, in the state directory, of the file with the Record.
const recordFile = "upgrade.json"

// record remembers the trials of one program, so that one that doesn't work is not tried without end.
type record struct {
	// Checksum is the program's.
	Checksum string `json:"checksum"`
	// Tries is how many trials have begun, Last when the last one did.
	Tries int       `json:"tries"`
	Last  time.Time `json:"last"`
}

// again returns how long after its last trial a program is tried again. The first pause is none: the host may have lost
// its power in the midst of the trial. Pure.
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

// due reports whether a program with a checksum may be tried now. A clock that was set back doesn't hold it up for
// longer than a day. Pure.
func (r record) due(checksum string, now time.Time) bool {
	since := now.Sub(r.Last)
	return r.Checksum != checksum || since >= again(r.Tries) || since < -24*time.Hour
}

// readRecord reads the record; one that is damaged counts as none.
func readRecord(stateDir string) (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Join(stateDir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading what was upgraded before: %w", err)
	}
	if json.Unmarshal(data, &r) != nil {
		return record{}, nil
	}
	return r, nil
}

// begin writes that a trial of a program begins.
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
		return fmt.Errorf("noting the upgrade: %w", err)
	}
	return nil
}

// newer reports whether an offered version is later than the agent's own. A version that is not a semantic one, as that
// of a build by hand, is neither replaced nor installed. Pure.
func newer(offered, own string) bool {
	o, err := version.ParseSemantic(offered)
	if err != nil {
		return false
	}
	has, err := version.ParseSemantic(own)
	return err == nil && has.LessThan(o)
}
