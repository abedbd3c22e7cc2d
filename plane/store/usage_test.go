package store

import (
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	const quota = 1000 << 20
	for name, c := range map[string]struct {
		usage                       Usage
		inUse                       int64
		compact, defragment, resume bool
		warning                     string
	}{
		"a new plane": {usage: Usage{Size: 2 << 20, InUse: 1 << 20}},
		"much was written since the last compaction": {
			usage: Usage{Size: 200 << 20, InUse: 150 << 20}, inUse: 50 << 20, compact: true,
		},
		"little more is in use than after the last compaction": {
			usage: Usage{Size: 400 << 20, InUse: 390 << 20}, inUse: 380 << 20,
		},
		"a large file that is nearly empty": {
			usage: Usage{Size: 600 << 20, InUse: 10 << 20}, inUse: 10 << 20, defragment: true,
		},
		"a large file that defragmentation would hardly shrink": {
			usage: Usage{Size: 600 << 20, InUse: 500 << 20}, inUse: 500 << 20,
		},
		"etcd is nearly full of needed data": {
			usage: Usage{Size: 900 << 20, InUse: 800 << 20}, inUse: 800 << 20, warning: "nearly full: 800 of 1000 MiB",
		},
		"etcd is full of old values": {
			usage: Usage{Size: quota, InUse: 990 << 20, Full: true}, inUse: 990 << 20, compact: true,
			warning: "accepts deletions",
		},
		"etcd is full, and was already compacted": {
			usage: Usage{Size: quota, InUse: 20 << 20, Full: true}, inUse: 20 << 20, compact: true, defragment: true,
			warning: "is full",
		},
		"etcd is full, and was already defragmented": {
			usage: Usage{Size: 20 << 20, InUse: 20 << 20, Full: true}, inUse: 20 << 20, compact: true, resume: true,
			warning: "is full",
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := c.usage
			u.Quota = quota
			if u.ShouldCompact(c.inUse) != c.compact || u.ShouldDefragment() != c.defragment || u.CanResume() != c.resume {
				t.Errorf("compact %v, defragment %v, resume %v", u.ShouldCompact(c.inUse), u.ShouldDefragment(), u.CanResume())
			}
			if got := u.Warning(); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
				t.Errorf("the warning is %q", got)
			}
		})
	}
}
