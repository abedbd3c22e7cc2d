package planebackup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/internal/failpoint"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/plane/store"
)

// relayName is the name of the dock's relay to the plane's etcd, which exists while a backup is made.
const relayName = "plane-backup"

// Options say what to back up or restore.
type Options struct {
	// Home is the plane's home directory, Path the backup file.
	Home home.Dir
	Path string
	// Tool verifies snapshots and creates data directories from them.
	Tool backup.Tool
	// Version is the version of Capstan, KubernetesVersion the Kubernetes version of the plane.
	Version, KubernetesVersion string
	// Step runs a step and shows it; Note shows a sentence.
	Step func(name string, do func(detail func(string)) error) error
	Note func(text string)
}

// step runs a step that has no details, and shows it.
func (o Options) step(name string, do func() error) error {
	return o.Step(name, func(func(string)) error { return do() })
}

// Create backs up a plane, which must be running and keeps running. Create stops when ctx ends.
func Create(ctx context.Context, o Options) (m Manifest, err error) {
	// A starting plane could change the keys in the meantime.
	unlock, err := local.LockFile(ctx, o.Home.Lock(), "capstan up or down", nil)
	if errors.Is(err, fs.ErrNotExist) {
		return m, &local.NoPlaneError{Home: string(o.Home)}
	}
	if err != nil {
		return m, err
	}
	defer unlock()
	status, err := local.Status(ctx, local.Place{Home: string(o.Home)})
	if err != nil {
		return m, err
	}
	if status.Plane != local.PhaseReady {
		return m, hint.Errorf("run: capstan up", "the plane is %s: a backup needs a running plane", status.Plane)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(o.Path), ".plane-backup-*")
	if err != nil {
		return m, fmt.Errorf("creating a directory for the snapshot: %w", err)
	}
	defer os.RemoveAll(scratch)
	m = Manifest{
		Format: format, Time: time.Now().UTC().Truncate(time.Second), Capstan: o.Version,
		KubernetesVersion: o.KubernetesVersion, Listen: status.Listen,
	}
	snapshot := filepath.Join(scratch, snapshotName)
	if err := o.step("snapshot of the plane", func() error { return o.save(ctx, snapshot) }); err != nil {
		return m, err
	}
	failpoint.Hit("plane snapshot saved")
	if err := o.step("snapshot verified", func() error {
		contents, err := o.Tool.Verify(ctx, snapshot, scratch)
		m.Revision, m.Keys = contents.Revision, contents.Keys
		return err
	}); err != nil {
		return m, err
	}
	if m.Files, err = o.files(snapshot); err != nil {
		return m, err
	}
	return m, write(o.Path, m)
}

// save saves a snapshot of the plane's etcd, which listens inside the dock.
func (o Options) save(ctx context.Context, path string) error {
	ports, err := plane.ReadPorts(o.Home.Plane())
	if err != nil {
		return err
	}
	docked := dock.Connect(string(o.Home))
	defer docked.Close()
	relay, err := docked.EnsureRelay(ctx, relayName, net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Etcd)))
	if err != nil {
		return fmt.Errorf("opening a relay to the plane's etcd: %w", err)
	}
	defer docked.DeleteRelay(context.WithoutCancel(ctx), relayName)
	pair := func(name string) (p pki.Pair, err error) {
		p.CertFile = filepath.Join(o.Home.Plane(), "pki", name+".crt")
		p.KeyFile = filepath.Join(o.Home.Plane(), "pki", name+".key")
		p.Cert, err = os.ReadFile(p.CertFile)
		return p, err
	}
	ca, err := pair("etcd-ca")
	if err != nil {
		return err
	}
	client, err := pair("etcd-client")
	if err != nil {
		return err
	}
	etcd, err := store.Open("https://"+relay, ca, client)
	if err != nil {
		return err
	}
	return errors.Join(etcd.Save(ctx, path), etcd.Close())
}

// files lists what a backup contains: the snapshot, all keys, and the user's choices.
func (o Options) files(snapshot string) ([]File, error) {
	files := []File{
		{Name: snapshotName, path: snapshot}, {Name: keysName, path: filepath.Join(o.Home.Plane(), keysName)},
	}
	keys, err := names(filepath.Join(o.Home.Plane(), "pki"))
	if err != nil {
		return nil, err
	}
	for _, name := range keys {
		if !strings.HasPrefix(name, ".") { // skips a file that is still being written
			files = append(files, File{Name: pkiPrefix + name, path: filepath.Join(o.Home.Plane(), "pki", name)})
		}
	}
	if path := filepath.Join(string(o.Home), choicesName); exists(path) {
		files = append(files, File{Name: choicesName, path: path})
	}
	for i := range files {
		if err := files[i].measure(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
