package hook_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Facts that break rules 3 and 4, or that are inconsistent, are errors (RS-05, RS-06).
func TestFactsAreChecked(t *testing.T) {
	define := func(version string) hook.Hook[ping, pong] {
		return hook.Define[ping, pong](schema.GroupVersion{Group: group, Version: version}, "First")
	}
	down := func(*ping, *ping) error { return nil }
	up := func(*pong, *pong) error { return nil }
	for name, c := range map[string]struct {
		newest, older string
		facts         hook.Facts // of the older version
		want          string     // "" for no error
	}{
		"a stable version after three releases": {"v2", "v1",
			hook.Facts{Introduced: "v1.2", Deprecated: "v1.10", RemovedIn: "v1.13", ReplacedBy: "v2"}, ""},
		"a stable version after two releases": {"v2", "v1",
			hook.Facts{Deprecated: "v1.10", RemovedIn: "v1.12", ReplacedBy: "v2"}, "stays for 3 releases and 12 months (RS-06)"},
		"a beta version after two releases": {"v1", "v1beta1",
			hook.Facts{Deprecated: "v1.10", RemovedIn: "v1.12", ReplacedBy: "v1"}, ""},
		"a beta version after one release": {"v1", "v1beta1",
			hook.Facts{Deprecated: "v1.10", RemovedIn: "v1.11", ReplacedBy: "v1"}, "RS-06"},
		"an alpha version at once": {"v1alpha2", "v1alpha1",
			hook.Facts{Deprecated: "v1.10", RemovedIn: "v1.10", ReplacedBy: "v1alpha2"}, ""},
		"replaced by a less stable version": {"v1beta1", "v1", hook.Facts{Deprecated: "v1.10", ReplacedBy: "v1beta1"},
			"less stable (RS-05)"},
		"deprecated without a replacement": {"v2", "v1", hook.Facts{Deprecated: "v1.10"}, "without a replacement"},
		"replaced by an unknown version": {"v2", "v1", hook.Facts{Deprecated: "v1.10", ReplacedBy: "v3"},
			"not another version in the catalog"},
		"replaced by itself": {"v2", "v1", hook.Facts{Deprecated: "v1.10", ReplacedBy: "v1"},
			"not another version in the catalog"},
		"removed without having been deprecated": {"v2", "v1", hook.Facts{RemovedIn: "v1.10"},
			"without having been deprecated"},
		"deprecated before it was introduced": {"v2", "v1",
			hook.Facts{Introduced: "v1.11", Deprecated: "v1.10", ReplacedBy: "v2"}, "before it was introduced"},
		"an invalid release": {"v2", "v1", hook.Facts{Introduced: "1.10"}, "write it like v1.14"},
		"removed early, but in a new major release": {"v2", "v1",
			hook.Facts{Deprecated: "v1.10", RemovedIn: "v2.0", ReplacedBy: "v2"}, ""},
	} {
		newest, older := define(c.newest), define(c.older)
		_, err := hook.NewCatalog(newest, hook.Serves(newest, older, down, up), hook.About(older, c.facts))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, c.want)
		}
		switch name {
		case "replaced by a less stable version", "deprecated without a replacement":
			t.Attr("rule", "RS-05")
		case "a stable version after two releases", "a beta version after one release":
			t.Attr("rule", "RS-06")
		}
	}
	first := define("v1")
	for name, c := range map[string]struct {
		registrations []hook.Registration
		want          string
	}{
		"described twice": {
			[]hook.Registration{first, hook.About(first, hook.Facts{}), hook.About(first, hook.Facts{})}, "described twice",
		},
		"facts about a hook that is not registered": {
			[]hook.Registration{hook.About(first, hook.Facts{})}, "register it too",
		},
		"facts about a hook without a name": {
			[]hook.Registration{hook.About(hook.Hook[ping, pong]{}, hook.Facts{})}, "without a name",
		},
		"facts about a nil hook": {[]hook.Registration{hook.About(nil, hook.Facts{})}, "without a name"},
	} {
		if _, err := hook.NewCatalog(c.registrations...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, c.want)
		}
	}
}

// Our catalog has what Cluster API says about its hooks, and which release introduced each.
func TestClusterAPIFacts(t *testing.T) {
	published := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(published); err != nil {
		t.Fatal(err)
	}
	catalog := hook.ClusterAPI()
	for gvh, d := range published.AllKnownHooks() {
		facts := catalog.Facts(hook.ID{Group: gvh.Group, Version: gvh.Version, Name: gvh.Hook})
		if facts.Summary != d.Metadata.Summary || facts.Description != d.Metadata.Description ||
			facts.Singleton != d.Metadata.Singleton {
			t.Errorf("%s: %+v", gvh.Hook, facts)
		}
		if facts.Introduced == "" {
			t.Errorf("%s: the release that introduced it is missing", gvh.Hook)
		}
	}
}

func TestReleases(t *testing.T) {
	ordered := []hook.Release{"junk", "v1.2", "v1.9", "v1.10", "v2.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Compare(b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s compared with %s: %d", a, b, got)
			}
		}
	}
}

func TestAdvice(t *testing.T) {
	if got := (hook.Facts{}).Advice(); got != "" {
		t.Errorf("the advice for a version that is not deprecated is %q", got)
	}
	if got, want := (hook.Facts{Deprecated: "v1.10", RemovedIn: "v1.13", ReplacedBy: "v2"}).Advice(),
		"deprecated since v1.10, removed in v1.13; use v2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Two versions of a hook exist at once; callers work with the newest (RS-08, RS-17).
func TestVersions(t *testing.T) {
	newest, older := hook.Define[ping, pong](v2, "First"), hook.Define[ping, pong](v1, "First")
	catalog, err := hook.NewCatalog(newest, hook.Serves(newest, older, func(*ping, *ping) error { return nil },
		func(*pong, *pong) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	versions := catalog.Versions(newest.ID().Family())
	if len(versions) != 2 || versions[0] != older.Descriptor() || versions[1] != newest.Descriptor() {
		t.Errorf("versions are %v", versions)
	}
	if !catalog.IsNewest(newest.ID()) || catalog.IsNewest(older.ID()) {
		t.Error("the wrong version is the newest")
	}
}

// Each blocking hook says in its description what blocking means for it, and no other hook does.
func TestBlockingIsDescribedPerHook(t *testing.T) {
	blocking := 0
	for _, d := range hook.ClusterAPI().All() {
		facts := hook.ClusterAPI().Facts(d.ID)
		says := strings.Contains(facts.Description, "This is a blocking hook") ||
			strings.Contains(facts.Description, "called repeatedly until")
		if says != d.CanWait {
			t.Errorf("hook %s can block: %t; its description is\n%s", d.ID, d.CanWait, facts.Description)
		}
		if d.CanWait {
			blocking++
		}
	}
	if blocking < 8 {
		t.Errorf("only %d hooks can block", blocking)
	}
	t.Attr("rule", "CL-14")
}
