package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLeaseName(t *testing.T) {
	shards := [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"a", "b"}, {"b", "a"}, {"ab", ""}}
	seen := map[string][2]string{}
	for _, shard := range shards {
		name := leaseName(shard[0], shard[1])
		if other, ok := seen[name]; ok {
			t.Errorf("shards %q and %q share Lease %s", shard, other, name)
		}
		seen[name] = shard
		if name != leaseName(shard[0], shard[1]) {
			t.Errorf("the name of the Lease for shard %q is not stable", shard)
		}
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Errorf("%s is not a valid name: %v", name, errs)
		}
	}
	if leaseName("", "") != electionID {
		t.Error("the Lease for all objects has a new name: replicas of two versions would both work in an upgrade")
	}
}
