package progress

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriter(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading before the first start: got error %v, want fs.ErrNotExist", err)
	}
	ready := filepath.Join(dir, ReadyFile)
	if err := os.WriteFile(ready, []byte("of an earlier plane"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Begin(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ready); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Begin left the ready file of an earlier plane: %v", err)
	}

	w.Phase(PhaseEtcd)("fine")
	w.Component("etcd", func(c *Component) { c.Up, c.Pid = true, 7 })
	w.Component("etcd", func(c *Component) { c.Restarts++ })
	state, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Phases) != 1 || state.Phases[0].Name != PhaseEtcd || state.Phases[0].Detail != "fine" || state.Ready {
		t.Errorf("the state is %+v", state)
	}
	if len(state.Components) != 1 || state.Components[0] != (Component{Name: "etcd", Up: true, Pid: 7, Restarts: 1}) {
		t.Errorf("the components are %+v", state.Components)
	}

	if err := w.Ready(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ready); err != nil {
		t.Error(err)
	}
	w.End(errors.New("the disk is full"))
	if _, err := os.Stat(ready); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ready file still exists after End: %v", err)
	}
	state, err = Read(dir)
	if err != nil || state.Ready || state.Error != "the disk is full" || state.Components[0].Up {
		t.Errorf("the state after End is %+v, error %v", state, err)
	}
}

func TestReadRefusesWhatIsBroken(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, StatusFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil {
		t.Error("an incomplete file was read without an error")
	}
}
