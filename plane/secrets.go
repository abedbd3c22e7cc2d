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

// Points of the rewriting of Secrets, in their order. A plane that is killed at any of them goes on at its next start.
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

// PointSealed is reached at each start, when everything in etcd is encrypted with one key.
const PointSealed = "sealed"

// Points are all other points that Options.Reached is called with.
var Points = []string{
	pointKeyMade, pointSomeWritten, pointAllWritten, pointKeyDropped, pointCompacted, pointDefragged, pointSaved,
	pointRestored, pointMovedAway, pointReplaced,
}

// secrets makes the key that encrypts Secrets, and sees that nothing in etcd is encrypted with another one, or not at
// all. Only a plane of an earlier version and a rotation of the key have something to rewrite; that needs an etcd, but
// no API server.
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

// rewrite encrypts everything with the first key of the ring, and replaces the files of etcd by new ones: the old ones
// hold, in their logs and free pages, what was there before.
func (p *plane) rewrite(ctx context.Context, ring *seal.Ring, data store.Data) error {
	end := p.progress.Phase(progress.PhaseSecrets)
	var changed int
	var unclean error
	if err := p.withEtcd(ctx, func(ctx context.Context, etcd *store.Store) (err error) {
		if usage, err := etcd.Usage(ctx); err == nil && usage.Full { // else it refuses to be rewritten
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
		// All is encrypted, and the plane can work. A full disk, for example, must not keep it from that.
		klog.Background().Error(unclean, "Files of etcd still hold what was there before Secrets were encrypted; "+
			"the next start of the plane tries again to replace them")
		end(fmt.Sprintf("%d values encrypted, etcd's files not replaced", changed))
		return data.Settle()
	}
	if err := ring.Cleaned(); err != nil {
		return err
	}
	end(fmt.Sprintf("%d values encrypted", changed))
	return nil
}

// saveClean saves a snapshot of etcd that holds nothing but the present values.
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

// replaceData makes etcd's data anew from the snapshot. Etcd does not run.
func (p *plane) replaceData(ctx context.Context, data store.Data) error {
	peer := "https://" + loopback(p.Ports.EtcdPeer)
	err := p.child("etcdutl", "etcdutl", "snapshot", "restore", data.Snapshot(),
		"--data-dir", data.New(), "--name", EtcdMember, "--initial-cluster", EtcdMember+"="+peer,
		"--initial-advertise-peer-urls", peer).Run(ctx, nil)
	var exit *process.ExitError
	if !errors.As(err, &exit) || exit.Err != nil { // one that is through has ended by itself, with status 0
		return fmt.Errorf("making etcd's files anew: %w", errors.Join(err, ctx.Err()))
	}
	p.opts.Reached(pointRestored)
	if err := data.Replace(func() { p.opts.Reached(pointMovedAway) }); err != nil {
		return err
	}
	p.opts.Reached(pointReplaced)
	return nil
}

// withEtcd runs etcd while use works with it.
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
