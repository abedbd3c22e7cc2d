package planebackup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/failpoint"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/plane"
)

// newName is the name of the directory in which Restore assembles the new plane.
const newName = ".new-plane"

// Restore creates a plane from a backup. The home directory must not have a plane yet. Restore does not start the new
// plane. Its last step moves everything into place: if Restore is killed before that, there is no plane, and another
// call starts over. Restore stops when ctx ends.
func Restore(ctx context.Context, o Options) (m Manifest, err error) {
	if m, err = Read(o.Path); err != nil {
		return m, err
	}
	if note, err := o.Home.Prepare(); err != nil {
		return m, err
	} else if note != "" {
		o.Note(note)
	}
	unlock, err := local.LockFile(ctx, o.Home.Lock(), "capstan up or down", nil)
	if err != nil {
		return m, err
	}
	defer unlock()
	if exists(o.Home.Plane()) {
		return m, hint.Errorf("choose another directory with --home, or remove the plane and all its data: "+
			"capstan down --delete",
			"%s already has a plane", o.Home)
	}
	fresh := filepath.Join(string(o.Home), newName)
	if err := os.RemoveAll(fresh); err != nil {
		return m, err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return m, err
	}
	if err := o.step("backup unpacked", func() (err error) { m, err = extract(o.Path, fresh); return err }); err != nil {
		return m, errors.Join(err, os.RemoveAll(fresh))
	}
	failpoint.Hit("plane backup unpacked")
	if err := o.step("etcd restored from the snapshot", func() error { return o.fill(ctx, fresh) }); err != nil {
		return m, errors.Join(err, os.RemoveAll(fresh))
	}
	failpoint.Hit("plane data made")
	if err := o.takeChoices(fresh); err != nil {
		return m, err
	}
	if err := os.Rename(fresh, o.Home.Plane()); err != nil {
		return m, fmt.Errorf("putting the plane into place: %w", err)
	}
	return m, nil
}

// fill creates etcd's data from the snapshot, and a mark that tells the starting plane that it was restored.
func (o Options) fill(ctx context.Context, fresh string) error {
	snapshot := filepath.Join(fresh, snapshotName)
	identity := backup.Identity{Name: plane.EtcdMember, PeerURL: "https://127.0.0.1:2380"} // nothing connects to it
	if err := o.Tool.Restore(ctx, snapshot, filepath.Join(fresh, "etcd"), identity); err != nil {
		return err
	}
	return errors.Join(os.Remove(snapshot), plane.MarkRestored(fresh))
}

// takeChoices restores the user's choices, except for the address to listen on, which belonged to the other computer.
func (o Options) takeChoices(fresh string) error {
	path := filepath.Join(fresh, choicesName)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var chosen map[string]any
	if err := json.Unmarshal(data, &chosen); err != nil {
		return fmt.Errorf("reading the plane's choices: %w", err)
	}
	if listen, ok := chosen["listen"].(map[string]any); ok {
		delete(listen, "address")
	}
	if data, err = json.Marshal(chosen); err != nil {
		return err
	}
	return errors.Join(atomicfile.Write(filepath.Join(string(o.Home), choicesName), data, 0o600), os.Remove(path))
}
