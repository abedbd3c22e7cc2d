//go:build linux

package plane

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/plane/store"
)

const (
	// upkeepPause is the time between two checks of etcd's size.
	upkeepPause = 2 * time.Second
	// aboutEtcd is the subject of warnings about etcd's size.
	aboutEtcd = "etcd"
)

// upkeep keeps etcd below its quota until ctx ends. The API server discards old values every five minutes, but somebody
// who writes without pause fills etcd faster. If there is nothing to discard, the plane warns when etcd is nearly full
// and when it is full.
func (p *plane) upkeep(ctx context.Context) error {
	etcd, err := store.Open("https://"+loopback(p.Ports.Etcd), p.PKI.EtcdCA, p.PKI.EtcdClient)
	if err != nil {
		return err
	}
	defer etcd.Close()
	keeper := keeper{etcd: etcd}
	for failed := false; ; {
		usage, err := keeper.look(ctx)
		if err == nil {
			p.progress.Warn(aboutEtcd, usage.Warning())
		} else if ctx.Err() == nil && !failed {
			klog.Background().Error(err, "The size of etcd could not be read; the plane will try again")
		}
		failed = err != nil
		if backoff.Sleep(ctx, upkeepPause) != nil {
			return nil
		}
	}
}

// shrink makes space in a full etcd.
func (p *plane) shrink(ctx context.Context, etcd *store.Store) error {
	keeper := keeper{etcd: etcd}
	_, err := keeper.look(ctx)
	return err
}

// sizable is the part of etcd that its upkeep needs.
type sizable interface {
	Usage(context.Context) (store.Usage, error)
	Compact(context.Context) error
	Defragment(context.Context) error
	Resume(context.Context) error
}

// keeper keeps one etcd small.
type keeper struct {
	etcd sizable
	// inUse is what was in use after the last compaction.
	inUse int64
}

// look measures etcd's size, compacts or defragments etcd if necessary, and returns the resulting usage.
func (k *keeper) look(ctx context.Context) (store.Usage, error) {
	usage, err := k.etcd.Usage(ctx)
	if err != nil {
		return usage, err
	}
	k.inUse = min(k.inUse, usage.InUse) // the API server may have compacted, too
	if usage.ShouldCompact(k.inUse) {
		if err := k.etcd.Compact(ctx); err != nil {
			return usage, err
		}
		if usage, err = k.etcd.Usage(ctx); err != nil {
			return usage, err
		}
		k.inUse = usage.InUse
	}
	if usage.ShouldDefragment() {
		before := usage
		if err := k.etcd.Defragment(ctx); err != nil {
			return usage, err
		}
		if usage, err = k.etcd.Usage(ctx); err != nil {
			return usage, err
		}
		klog.Background().Info("Etcd's file was rewritten", "bytesBefore", before.Size, "bytes", usage.Size)
	}
	if usage.CanResume() {
		if err := k.etcd.Resume(ctx); err != nil {
			return usage, err
		}
		klog.Background().Info("Etcd was full and accepts writes again", "bytes", usage.Size)
		usage.Full = false
	}
	return usage, nil
}
