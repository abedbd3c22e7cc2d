package main

import (
	"strings"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
)

func TestChooseBackup(t *testing.T) {
	two := []backup.Manifest{{Name: "old"}, {Name: "new"}}
	for name, c := range map[string]struct {
		all       []backup.Manifest
		ask, want string
	}{
		"the newest, if none is named": {two, "", "new"},
		"the one that is named":        {two, "old", "old"},
		"one that there is not":        {two, "other", ""},
		"none at all":                  {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseBackup(c.all, c.ask)
			if got.Name != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Name, err, c.want)
			}
		})
	}
}

func TestControlPlaneHosts(t *testing.T) {
	host := func(name, cluster string, controlPlane, released bool) infrav1.CapstanHost {
		h := infrav1.CapstanHost{}
		h.Name = name
		h.Spec.Claim = &infrav1.HostClaim{Cluster: cluster, ControlPlane: controlPlane, Released: released}
		return h
	}
	got := controlPlaneHosts([]infrav1.CapstanHost{
		host("c", "blue", true, false), host("a", "blue", true, false), host("b", "blue", false, false), host("d", "green", true, false),
		host("e", "blue", true, true), {},
	}, "blue")
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" {
		t.Errorf("got %v", got)
	}
}

func TestBackupsInABucketAreRefused(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	for want, args := range map[string][]string{
		"there is no access key": {"backup", "list", "--bucket", "backups"},
		"backup.insecure":        {"backup", "list", "--bucket", "backups", "--endpoint", "http://127.0.0.1:1"},
		"no name of a bucket":    {"backup", "restore", "blue", "--bucket", "A/B"},
		"[bucket directory]":     {"backup", "create", "blue", "--bucket", "backups", "--directory", "/x"},
	} {
		if code, _, errOut := capstan(t, "", args...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: %d %s, want %q", args, code, errOut, want)
		}
	}
}
