package hook_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// The catalog must hold what Cluster API publishes, with the same names, kinds and paths.
func TestClusterAPIIsComplete(t *testing.T) {
	published := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(published); err != nil {
		t.Fatal(err)
	}
	ours := hook.ClusterAPI()
	if got, want := len(ours.All()), len(published.AllKnownHooks()); got != want {
		t.Errorf("the catalog has %d hooks, Cluster API publishes %d", got, want)
	}
	for gvh, descriptor := range published.AllKnownHooks() {
		id := hook.ID{Group: gvh.Group, Version: gvh.Version, Name: gvh.Hook}
		d, ok := ours.Get(id)
		if !ok {
			t.Errorf("hook %s is missing", id)
			continue
		}
		if d.RequestKind != descriptor.Request.Kind || d.ResponseKind != descriptor.Response.Kind {
			t.Errorf("%s: kinds are %s and %s, published are %s and %s", id, d.RequestKind, d.ResponseKind,
				descriptor.Request.Kind, descriptor.Response.Kind)
		}
		t.Attr("rule", "RS-14")
		if got, want := id.Path("My-Handler"), runtimecatalog.GVHToPath(gvh, "My-Handler"); got != want {
			t.Errorf("%s: path is %s, published is %s", id, got, want)
		}
		t.Attr("rule", "RX-06")
		if got, want := id.Path(""), runtimecatalog.GVHToPath(gvh, ""); got != want {
			t.Errorf("%s: path is %s, published is %s", id, got, want)
		}
		request, err := published.NewRequest(gvh)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.CopyRequest(request); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		response, err := published.NewResponse(gvh)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CheckResponse(response); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestLookupByPublishedFunction(t *testing.T) {
	for name, function := range map[string]runtimecatalog.Hook{
		"BeforeClusterCreate": runtimehooksv1.BeforeClusterCreate,
		"UpdateMachine":       runtimehooksv1.UpdateMachine,
		"Discovery":           runtimehooksv1.Discovery,
	} {
		d, err := hook.ClusterAPI().Lookup(function)
		if err != nil || d.ID.Name != name {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
	}
	if d, err := hook.ClusterAPI().Lookup(hook.BeforeClusterDelete); err != nil ||
		d != hook.BeforeClusterDelete.Descriptor() {
		t.Errorf("looked up by its value: %+v, %v", d, err)
	}
}

// Hooks of our own group. First and Second share their types.

type ping struct {
	metav1.TypeMeta              `json:",inline"`
	runtimehooksv1.CommonRequest `json:",inline"`
	Text                         string `json:"text,omitempty"`
}

func (p *ping) DeepCopyObject() runtime.Object { clone := *p; return &clone }

type pong struct {
	metav1.TypeMeta                    `json:",inline"`
	runtimehooksv1.CommonRetryResponse `json:",inline"`
	Text                               string `json:"text,omitempty"`
}

func (p *pong) DeepCopyObject() runtime.Object { clone := *p; return &clone }

func First(*ping, *pong)  {}
func Second(*ping, *pong) {}

var (
	group = "hooks.example.org"
	v1    = schema.GroupVersion{Group: group, Version: "v1"}
	v2    = schema.GroupVersion{Group: group, Version: "v2"}
)

// The fifth defect seen in other clients: hooks with the same types silently became one.
func TestDefectHooksThatShareTypesStayApart(t *testing.T) {
	catalog, err := hook.NewCatalog(hook.Of(v1, First), hook.Of(v1, Second))
	if err != nil {
		t.Fatal(err)
	}
	for name, function := range map[string]func(*ping, *pong){"First": First, "Second": Second} {
		if d, err := catalog.Lookup(function); err != nil || d.ID.Name != name {
			t.Errorf("%s: found %+v, %v", name, d, err)
		}
	}
}

func TestNewCatalogRejects(t *testing.T) {
	first := hook.Define[ping, pong](v1, "First")
	newest := hook.Define[ping, pong](v2, "First")
	down := func(*ping, *ping) error { return nil }
	up := func(*pong, *pong) error { return nil }
	for name, c := range map[string]struct {
		registrations []hook.Registration
		want          string
	}{
		"the same hook twice": {[]hook.Registration{first, first}, "register each hook once"},
		"names that differ only in case": {[]hook.Registration{first, hook.Define[ping, pong](v1, "FIRST")},
			"have the same path"},
		"the same function twice": {[]hook.Registration{hook.Of(v1, First), hook.Of(v2, First)},
			"are the same function"},
		"no group": {
			[]hook.Registration{hook.Define[ping, pong](schema.GroupVersion{Version: "v1"}, "First")}, `group "" is not valid`,
		},
		"no version": {
			[]hook.Registration{hook.Define[ping, pong](schema.GroupVersion{Group: group}, "First")}, `version "" is not valid`,
		},
		"no name": {[]hook.Registration{hook.Define[ping, pong](v1, "")}, `name "" is not valid`},
		"a name with a slash": {[]hook.Registration{hook.Define[ping, pong](v1, "a/b")},
			`name "a/b" is not valid`},
		"a zero hook":                   {[]hook.Registration{hook.Hook[ping, pong]{}}, "hook.Define or hook.Of"},
		"a nil function":                {[]hook.Registration{hook.Of[ping, pong](v1, nil)}, "hook.Define or hook.Of"},
		"a nil registration":            {[]hook.Registration{nil}, "a registration is nil"},
		"versions without a conversion": {[]hook.Registration{first, newest}, "hook.Serves"},
		"a conversion between hooks": {
			[]hook.Registration{newest, hook.Serves(newest, hook.Define[ping, pong](v1, "Second"), down, up)}, "RS-15",
		},
		"a conversion to itself": {[]hook.Registration{newest, hook.Serves(newest, newest, down, up)}, "RS-15"},
		"a conversion without a way up": {[]hook.Registration{newest, hook.Serves(newest, first, down, nil)},
			"both conversions"},
		"a newest version that is not registered": {
			[]hook.Registration{hook.Serves(newest, first, down, up)}, "register it too",
		},
		"a conversion from a zero hook": {[]hook.Registration{hook.Serves(hook.Hook[ping, pong]{}, first, down, up)},
			"without a name"},
		"a conversion from an older version": {
			[]hook.Registration{newest, hook.Serves(newest, first, down, up),
				hook.Serves(first, hook.Define[ping, pong](schema.GroupVersion{Group: group, Version: "v0"}, "First"), down, up)},
			"convert from the newest",
		},
		"all errors at once": {[]hook.Registration{nil, hook.Define[ping, pong](v1, "")},
			"a registration is nil\n"},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, err := hook.NewCatalog(c.registrations...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want an error with %q", catalog, err, c.want)
			}
			switch name {
			case "a conversion between hooks":
				t.Attr("rule", "RS-15")
			}
		})
	}
}

func TestConversion(t *testing.T) {
	newest, older := hook.Define[ping, pong](v2, "First"), hook.Define[ping, pong](v1, "First")
	catalog, err := hook.NewCatalog(newest, hook.Serves(newest, older,
		func(n, o *ping) error { o.Text = n.Text + " down"; return nil },
		func(o, n *pong) error { n.Text = o.Text + " up"; return nil }))
	if err != nil {
		t.Fatal(err)
	}
	same, err := catalog.Conversion(newest.Descriptor(), newest.ID())
	if err != nil || same != nil {
		t.Errorf("the conversion to the same version: %v, %v", same, err)
	}
	conversion, err := catalog.Conversion(newest.Descriptor(), older.ID())
	if err != nil {
		t.Fatal(err)
	}
	request, err := conversion.Down(&ping{Text: "hello"})
	if err != nil || request.(*ping).Text != "hello down" {
		t.Errorf("down gave %+v, %v", request, err)
	}
	response, err := conversion.Up(&pong{Text: "hello"})
	if err != nil || response.(*pong).Text != "hello up" {
		t.Errorf("up gave %+v, %v", response, err)
	}
	if _, err := catalog.Conversion(newest.Descriptor(), hook.ID{Group: group, Version: "v9", Name: "First"}); err == nil {
		t.Error("a conversion to an unknown version was found")
	}
	if _, err := catalog.Conversion(older.Descriptor(), newest.ID()); err == nil {
		t.Error("a conversion from an older version to the newest was found")
	}
}

func TestCopyRequestIsShallowAndApart(t *testing.T) {
	original := &ping{Text: "a"}
	clone, err := hook.Define[ping, pong](v1, "First").Descriptor().CopyRequest(original)
	if err != nil {
		t.Fatal(err)
	}
	clone.(*ping).SetSettings(map[string]string{"k": "v"})
	if original.Settings != nil {
		t.Error("setting the copy's settings changed the original")
	}
}
