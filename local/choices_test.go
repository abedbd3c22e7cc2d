package local

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// TestChoose makes choices one after the other in the same home directory.
func TestChoose(t *testing.T) {
	closed, pools := gates.Set{"RuntimeSDK": false}, gates.Set{"MachinePool": false}
	dir := home.Dir(t.TempDir())
	for _, c := range []struct {
		name         string
		wanted, want choices
	}{
		{"the first choice", choices{Hosts: 5, FeatureGates: closed}, choices{Hosts: 5, FeatureGates: closed}},
		{"no choice keeps both", choices{}, choices{Hosts: 5, FeatureGates: closed}},
		{"other hosts keep the gates", choices{Hosts: 6}, choices{Hosts: 6, FeatureGates: closed}},
		{"other gates keep the hosts, and replace the gates", choices{FeatureGates: pools},
			choices{Hosts: 6, FeatureGates: pools}},
		{"an empty set of gates restores the plane's defaults", choices{FeatureGates: gates.Set{}}, choices{Hosts: 6}},
		{"no choice keeps the plane's defaults", choices{}, choices{Hosts: 6}},
	} {
		if got, err := choose(dir, c.wanted); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	if got, err := choose(home.Dir(t.TempDir()), choices{}); err != nil || got.Hosts < 3 || got.FeatureGates != nil {
		t.Errorf("without a choice in a new home directory: got %+v, error %v", got, err)
	}
}

func TestChooseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file       string
		wanted     choices
		want, hint string
	}{
		"a broken file": {"{", choices{}, "reading ", "remove that file"},
		"gates of another release": {`{"hosts":3,"featureGates":{"Gone":true}}`, choices{}, `there is no feature gate "Gone"`,
			"capstan up --feature-gates"},
		"gates that don't exist": {"{}", choices{FeatureGates: gates.Set{"Gone": true}}, `there is no feature gate "Gone"`,
			"choose from ClusterTopology, "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, choicesFile)
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := choose(home.Dir(dir), c.wanted)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(hint.Of(err), c.hint) {
				t.Errorf("error %v with the hint %q", err, hint.Of(err))
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != c.file {
				t.Errorf("the file was changed to %q, error %v", after, err)
			}
		})
	}
}
