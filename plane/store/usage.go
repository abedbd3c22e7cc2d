package store

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Usage is how much space etcd uses, in bytes.
type Usage struct {
	// Size is the size of the file, which never shrinks by itself.
	Size int64
	// InUse is the part of the file that holds current and earlier values.
	InUse int64
	// Quota is the maximum size of the file, at which etcd rejects writes.
	Quota int64
	// Full reports whether etcd rejects writes now. It continues to do so until Resume.
	Full bool
}

// Usage asks etcd how much space it uses.
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

// ShouldCompact reports whether discarding old values is worthwhile; inUse is what was in use after the last
// compaction. It is a pure function.
func (u Usage) ShouldCompact(inUse int64) bool {
	return u.Full || u.InUse-inUse > min(u.Quota/8, 64<<20)
}

// ShouldDefragment reports whether to rewrite the file, although etcd answers no requests meanwhile: only if the file
// is near its quota and rewriting would make it much smaller. It is a pure function.
func (u Usage) ShouldDefragment() bool {
	if u.Full {
		return !u.CanResume() && u.InUse < u.Size/10*9
	}
	return u.Size > u.Quota/2 && u.InUse < u.Size/2
}

// CanResume reports whether there is space again after etcd was full. It is a pure function.
func (u Usage) CanResume() bool { return u.Full && u.Size < u.Quota/10*9 }

// Warning returns a warning if etcd is full, or if the values in use nearly fill it, so that discarding old values does
// not help. Otherwise it returns "". It is a pure function.
func (u Usage) Warning() string {
	const advice = "delete what is no longer needed; \"capstan kubectl get --raw /metrics\" counts objects as " +
		"apiserver_resource_objects"
	switch used := fmt.Sprintf("%d of %d MiB", u.InUse>>20, u.Quota>>20); {
	case u.Full:
		return "etcd is full, and the plane accepts deletions only: " + used + " are in use; " + advice
	case u.InUse > u.Quota/4*3:
		return "etcd is nearly full: " + used + " are in use; " + advice
	}
	return ""
}
