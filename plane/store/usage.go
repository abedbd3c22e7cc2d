package store

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Usage is how much room etcd takes, in bytes.
type Usage struct {
	// Size is that of the file, which never shrinks by itself.
	Size int64
	// InUse is the part of it that holds values of today and of before.
	InUse int64
	// Quota is how large the file may become. Etcd refuses writes from then on.
	Quota int64
	// Full is whether it refuses writes now. It goes on with that until it is told not to.
	Full bool
}

// Usage asks etcd how much room it takes.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	status, err := s.client.Status(ctx, s.endpoint)
	if err != nil {
		return Usage{}, fmt.Errorf("asking etcd for its size: %w", err)
	}
	usage := Usage{Size: status.DbSize, InUse: status.DbSizeInUse, Quota: status.DbSizeQuota}
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return Usage{}, fmt.Errorf("asking etcd for its alarms: %w", err)
	}
	for _, alarm := range alarms.Alarms {
		usage.Full = usage.Full || alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
	}
	return usage, nil
}

// Resume makes etcd accept writes again after it was full.
func (s *Store) Resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("making etcd accept writes again: %w", err)
	}
	return nil
}

// ShouldCompact reports whether forgetting old values is worth it: inUse is what was in use after the last time. Pure.
func (u Usage) ShouldCompact(inUse int64) bool {
	return u.Full || u.InUse-inUse > min(u.Quota/8, 64<<20)
}

// ShouldDefragment reports whether the file should be written anew, during which etcd answers nobody: only if it nears
// its quota, and becomes much smaller by it. Pure.
func (u Usage) ShouldDefragment() bool {
	if u.Full {
		return !u.CanResume() && u.InUse < u.Size/10*9
	}
	return u.Size > u.Quota/2 && u.InUse < u.Size/2
}

// CanResume reports whether there is room again after etcd was full. Pure.
func (u Usage) CanResume() bool { return u.Full && u.Size < u.Quota/10*9 }

// Warning returns what to say of an etcd that is full or nearly so although nothing can be forgotten, "" otherwise.
// Pure.
func (u Usage) Warning() string {
	const advice = "delete what is not needed any more; \"capstan kubectl get --raw /metrics\" counts objects as " +
		"apiserver_resource_objects"
	switch used := fmt.Sprintf("%d of %d MiB", u.InUse>>20, u.Quota>>20); {
	case u.Full:
		return "etcd is full, and the plane accepts deletions only: " + used + " are in use; " + advice
	case u.InUse > u.Quota/4*3:
		return "etcd is nearly full: " + used + " are in use; " + advice
	}
	return ""
}
