package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// choicesFile is the file in the home directory that keeps the user's choices.
const choicesFile = "up.json"

// choices are the settings that Up keeps from one start to the next.
type choices struct {
	// Hosts is the number of local hosts; zero if the user never chose one.
	Hosts int `json:"hosts"`
	// FeatureGates are the gates that differ from the plane's defaults; nil if the user never chose any.
	FeatureGates gates.Set `json:"featureGates,omitempty"`
	// Listen is where other computers reach the plane.
	Listen Listen `json:"listen,omitzero"`
	// Metrics is the address that serves metrics; empty if none does.
	Metrics string `json:"metrics,omitempty"`
	// Bundles says how owned hosts get the programs of a node.
	Bundles Bundles `json:"bundles,omitzero"`
}

// readChoices returns the choices of the last start, or the zero value if there was none.
func readChoices(dir home.Dir) (kept choices, err error) {
	path := filepath.Join(string(dir), choicesFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return choices{}, nil
	}
	if err != nil {
		return choices{}, fmt.Errorf("reading the choices of the previous start: %w", err)
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return choices{}, hint.Errorf("remove that file and try again", "reading %s: %w", path, err)
	}
	return kept, nil
}

// choose completes the number of hosts and the feature gates in wanted with those of the last start. If no number of
// hosts was ever chosen, it uses the number that the machine can hold. It does not change Listen, Metrics and Bundles.
// It saves the result in the home directory.
func choose(dir home.Dir, wanted choices) (choices, error) {
	kept, err := readChoices(dir)
	if err != nil {
		return choices{}, err
	}
	if wanted.Hosts == 0 {
		wanted.Hosts = kept.Hosts
	}
	if wanted.Hosts == 0 {
		wanted.Hosts = hostsFor(memoryMiB(), inotifyInstances())
	}
	fromFile := wanted.FeatureGates == nil
	if fromFile {
		wanted.FeatureGates = kept.FeatureGates
	}
	if _, err := gates.Plane().With(wanted.FeatureGates); err != nil {
		if fromFile {
			return choices{}, hint.Errorf("choose others: capstan up --feature-gates NAME=true,NAME=false",
				"the feature gates of the previous start: %w", err)
		}
		return choices{}, err
	}
	if len(wanted.FeatureGates) == 0 {
		wanted.FeatureGates = nil // the value that readChoices returns at the next start
	}
	if reflect.DeepEqual(wanted, kept) {
		return wanted, nil
	}
	data, err := json.Marshal(wanted)
	if err != nil {
		return choices{}, fmt.Errorf("encoding the choices: %w", err)
	}
	return wanted, atomicfile.Write(filepath.Join(string(dir), choicesFile), data, 0o600)
}
