//go:build linux

package plane

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/plane/pki"
)

// TestRenewOnce renews certificates at several times of their lifetime. At first, the callback Renewed fails.
func TestRenewOnce(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		after   time.Duration
		renewed bool
	}{
		"after half of the lifetime":                     {pki.LeafLifetime / 2, false},
		"after three quarters of the lifetime":           {pki.LeafLifetime / 4 * 3, true},
		"after two lifetimes, because the machine slept": {pki.LeafLifetime * 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plane{Info: Info{Dir: t.TempDir()}}
			var failure error
			told := 0
			p.opts.Renewed = func(Info) error { told++; return failure }
			directory := p.directory()
			before, err := pki.Ensure(directory, nil)
			if err != nil {
				t.Fatal(err)
			}
			directory.KeepKeys = true
			directory.Now = func() time.Time { return start.Add(c.after) }
			failure = errors.New("the kubeconfig can't be written")
			after, err := p.renewOnce(directory, before)
			if c.renewed != (err != nil) || after != before && c.renewed {
				t.Errorf("with a failing callback, renewOnce returned error %v", err)
			}
			failure = nil
			if after, err = p.renewOnce(directory, before); err != nil {
				t.Fatal(err)
			}
			names := after.Renewed(before)
			if want := []string{"admin", "apiserver", "controller-manager", "etcd", "etcd-client", "extension",
				"extension-server", "manager", "runtime-client", "webhook"}; c.renewed && !slices.Equal(sorted(names), want) ||
				!c.renewed && len(names) > 0 {
				t.Errorf("the renewed certificates are %q", names)
			}
			if (told == 2) != c.renewed {
				t.Errorf("the callback was called %d times", told)
			}
			if string(after.APIServer.Key) != string(before.APIServer.Key) || string(after.CA.Cert) != string(before.CA.Cert) {
				t.Error("a key or the authority was replaced, too")
			}
			if end, _ := after.Ends(); c.renewed && end.Before(start.Add(c.after+pki.LeafLifetime-time.Hour)) {
				t.Errorf("the new certificates expire on %s", end)
			}
		})
	}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

func TestWarningsOfEnds(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		end  time.Time
		want string
	}{
		"in nine years":    {now.AddDate(9, 0, 0), ""},
		"in eleven months": {now.AddDate(0, 11, 0), "expires on 2027-10-22"},
		"yesterday":        {now.AddDate(0, 0, -1), "expires on 2026-11-21"},
	} {
		got := authorityWarning(c.end, now, "/home/plane/pki")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("the warning about an authority that expires %s is %q", name, got)
		}
	}
	if got := certificateWarning(now, nil); got != "" {
		t.Errorf("without a failure, the warning is %q", got)
	}
	if got := certificateWarning(now, errors.New("the disk is full")); !strings.Contains(got, "2026-11-22") ||
		!strings.Contains(got, "disk is full") {
		t.Errorf("the warning about a failed renewal is %q", got)
	}
}
