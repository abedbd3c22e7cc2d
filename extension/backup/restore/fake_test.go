package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/backup/member"
)

// fakeHosts are control plane hosts in memory. fail is the number, counted from 1, of the operation that fails. If half
// is set, that operation does its work before it fails.
type fakeHosts struct {
	running map[string]bool
	data    map[string]string
	log     []string
	fail    int
	err     error
	half    bool
}

var errFake = errors.New("the host does not answer")

func newFakeHosts(names ...string) *fakeHosts {
	f := &fakeHosts{running: map[string]bool{}, data: map[string]string{}}
	for _, name := range names {
		f.running[name], f.data[name] = true, "old"
	}
	return f
}

// do counts an operation and decides whether it fails. work does the operation's work.
func (f *fakeHosts) do(operation, host string, work func()) error {
	f.log = append(f.log, operation+" "+host)
	if len(f.log) != f.fail {
		work()
		return nil
	}
	if f.half {
		work()
	}
	if f.err != nil {
		return f.err
	}
	return fmt.Errorf("host %s: %w", host, errFake)
}

func (f *fakeHosts) Member(_ context.Context, host string) (found bool, err error) {
	err = f.do("member", host, func() { found = f.data[host] != "" })
	return found, err
}

func (f *fakeHosts) Stop(_ context.Context, host string) error {
	return f.do("stop", host, func() { f.running[host] = false })
}

func (f *fakeHosts) Start(_ context.Context, host string) error {
	return f.do("start", host, func() { f.running[host] = true })
}

// Replace fails as the interface says: the host keeps its old data unless the error is ErrWithoutData.
func (f *fakeHosts) Replace(_ context.Context, host, snapshot string) (string, error) {
	if f.running[host] {
		return "", errors.New("etcd runs on " + host)
	}
	data, err := os.ReadFile(snapshot)
	if err != nil {
		return "", err
	}
	half := f.half
	defer func() { f.half = half }()
	f.half = false
	if err := f.do("replace", host, func() { f.data[host] = string(data) }); err != nil {
		if errors.Is(err, member.ErrWithoutData) {
			f.data[host] = ""
		}
		return "", err
	}
	return "/kept", nil
}

// anyRunning reports whether an API server can answer.
func (f *fakeHosts) anyRunning() bool {
	for _, running := range f.running {
		if running {
			return true
		}
	}
	return false
}

// fakeStore has one backup.
type fakeStore struct {
	backup.Store
	manifest backup.Manifest
	damaged  error
	fetch    error
}

func (s fakeStore) List(context.Context, string, string) ([]backup.Manifest, error) {
	return slices.Clone([]backup.Manifest{s.manifest}), s.damaged
}

func (s fakeStore) Fetch(_ context.Context, _ backup.Manifest, file string) error {
	if s.fetch != nil {
		return s.fetch
	}
	return os.WriteFile(file, []byte("restored"), 0o600)
}
