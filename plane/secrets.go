//go:build linux

package plane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/plane/progress"
	"github.com/capstan-dev/capstan/plane/seal"
	"github.com/capstan-dev/capstan/plane/store"
)

// Points during the rewriting of Secrets, in order. If a plane is killed at any of them, its next start continues.
const (
	pointKeyMade     = "key-made"
	pointSomeWritten = "some-written"
	pointAllWritten  = "all-written"
	pointKeyDropped  = "key-dropped"
	pointCompacted   = "compacted"
	pointDefragged   = "defragmented"
	pointSaved       = "saved"
	pointRestored    = "restored"
	pointMovedAway   = "moved-away"
	pointReplaced    = "replaced"
)

// PointSealed is reached at each start, once everything in etcd is encrypted with one key.
const PointSealed = "sealed"

// Points are all other points that Options.Reached is called with.
var Points = []string{
	pointKeyMade, pointSomeWritten, pointAllWritten, pointKeyDropped, pointCompacted, pointDefragged, pointSaved,
	pointRestored, pointMovedAway, pointReplaced,
}

// secrets creates the key that encrypts Secrets, and makes sure that nothing in etcd is unencrypted or encrypted with
// another key. Only data of an earlier version or a rotation of the key requires rewriting; that needs a running etcd,
// but no API server.
func (p *plane) secrets(ctx context.Context) error {
	data := store.Data(filepath.Join(p.Dir, etcdDir))
	if err := data.Settle(); err != nil {
		return err
	}
	fresh, err := data.Empty()
	if err != nil {
		return err
	}
	ring, err := seal.Open(filepath.Join(p.Dir, encryptionDir), fresh, nil)
	if err != nil {
		return err
	}
	if added, err := ring.Add(); err != nil {
		return err
	} else if added {
		p.opts.Reached(pointKeyMade)
	}
	if ring.Pending() || ring.Remnants {
		err = p.rewrite(ctx, ring, data)
	} else {
		err = ring.Ensure()
	}
	if err != nil {
		return err
	}
	if p.encryption, err = ring.WriteConfig(); err != nil {
		return err
	}
	p.opts.Reached(PointSealed)
	return p.progress.Update(func(s *progress.State) { s.SecretsKey = ring.Keys[0].Name })
}

// rewrite encrypts everything with the first key of the ring, and replaces the files of etcd, because the old ones
// still contain the earlier data in their logs and free pages.
func (p *plane) rewrite(ctx context.Context, ring *seal.Ring, data store.Data) error {
	end := p.progress.Phase(progress.PhaseSecrets)
	var changed int
	var unclean error
	if err := p.withEtcd(ctx, func(ctx context.Context, etcd *store.Store) (err error) {
		if usage, err := etcd.Usage(ctx); err == nil && usage.Full { // a full etcd rejects the rewrite
			if err := p.shrink(ctx, etcd); err != nil {
				return err
			}
		}
		if changed, err = ring.Rewrite(ctx, etcd, func() { p.opts.Reached(pointSomeWritten) }); err != nil {
			return fmt.Errorf("encrypting the Secrets of the plane: %w", err)
		}
		p.opts.Reached(pointAllWritten)
		if err := ring.Done(); err != nil {
			return err
		}
		p.opts.Reached(pointKeyDropped)
		unclean = p.saveClean(ctx, etcd, data)
		return nil
	}); err != nil {
		return err
	}
	if unclean == nil {
		unclean = p.replaceData(ctx, data)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if unclean != nil {
		// Everything is encrypted, so the plane can work. For example, a full disk must not prevent that.
		klog.Background().Error(unclean, "Files of etcd still hold data from before Secrets were encrypted; the plane "+
			"tries again to replace them at its next start")
		end(fmt.Sprintf("%d values encrypted, etcd's files not replaced", changed))
		return data.Settle()
	}
	if err := ring.Cleaned(); err != nil {
		return err
	}
	end(fmt.Sprintf("%d values encrypted", changed))
	return nil
}

// saveClean saves a snapshot of etcd that contains only the current values.
func (p *plane) saveClean(ctx context.Context, etcd *store.Store, data store.Data) error {
	if err := etcd.Compact(ctx); err != nil {
		return err
	}
	p.opts.Reached(pointCompacted)
	if err := etcd.Defragment(ctx); err != nil {
		return err
	}
	p.opts.Reached(pointDefragged)
	if err := etcd.Save(ctx, data.Snapshot()); err != nil {
		return err
	}
	p.opts.Reached(pointSaved)
	return nil
}

// replaceData recreates etcd's data from the snapshot. Etcd must not be running.
func (p *plane) replaceData(ctx context.Context, data store.Data) error {
	peer := "https://" + loopback(p.Ports.EtcdPeer)
	err := p.child("etcdutl", "etcdutl", "snapshot", "restore", data.Snapshot(),
		"--data-dir", data.New(), "--name", EtcdMember, "--initial-cluster", EtcdMember+"="+peer,
		"--initial-advertise-peer-urls", peer).Run(ctx, nil)
	var exit *process.ExitError
	if !errors.As(err, &exit) || exit.Err != nil { // a complete run exits by itself, with status 0
		return fmt.Errorf("rebuilding etcd's files: %w", errors.Join(err, ctx.Err()))
	}
	p.opts.Reached(pointRestored)
	if err := data.Replace(func() { p.opts.Reached(pointMovedAway) }); err != nil {
		return err
	}
	p.opts.Reached(pointReplaced)
	return nil
}

// withEtcd runs etcd while the function use works with it.
func (p *plane) withEtcd(ctx context.Context, use func(context.Context, *store.Store) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	child := p.etcd()
	go func() { ended <- child.Run(running, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		if err == nil {
			err = context.Cause(ctx)
		}
		return err
	}
	etcd, err := store.Open("https://"+loopback(p.Ports.Etcd), p.PKI.EtcdCA, p.PKI.EtcdClient)
	if err == nil {
		err = errors.Join(use(ctx, etcd), etcd.Close())
	}
	stop()
	return errors.Join(err, <-ended)
}
