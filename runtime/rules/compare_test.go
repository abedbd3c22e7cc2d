package rules_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
	"github.com/capstan-dev/capstan/runtime/schema"
)

const name = "hooks.example.org/v1/First"

// first describes one hook with a bit of everything.
func first() *schema.Document {
	field := func(t schema.Type, required bool) *schema.Field { return &schema.Field{Type: t, Required: required} }
	text := schema.Type{Kind: schema.String}
	d := schema.New()
	d.Hooks[name] = &schema.Hook{Request: "a.Request", Response: "a.Response", Blocking: true}
	d.Types["a.Request"] = &schema.Type{Kind: schema.Object, Fields: map[string]*schema.Field{
		"host": field(schema.Type{Ref: "a.Host"}, true),
		"mode": field(schema.Type{Kind: schema.String, Enum: []string{"Hard", "Soft"}}, false),
		"list": field(schema.Type{Kind: schema.Array, Items: &schema.Type{Ref: "a.Host"}}, false),
		"map":  field(schema.Type{Kind: schema.Map, Items: &schema.Type{Kind: schema.Integer, Format: "int32"}}, false),
	}}
	d.Types["a.Host"] = &schema.Type{Kind: schema.Object, Fields: map[string]*schema.Field{
		"name": field(text, true), "parent": field(schema.Type{Ref: "a.Host"}, false),
	}}
	d.Types["a.Response"] = &schema.Type{Kind: schema.Object, Fields: map[string]*schema.Field{
		"status":            field(schema.Type{Kind: schema.String, Enum: []string{"Failure", "Success"}}, true),
		"message":           field(text, false),
		"retryAfterSeconds": field(schema.Type{Kind: schema.Integer}, true),
	}}
	return d
}

// Changes that break extensions are found, others are ignored.
func TestCompare(t *testing.T) {
	text := schema.Type{Kind: schema.String}
	for name, c := range map[string]struct {
		change func(*schema.Document)
		want   []string // all findings
	}{
		"nothing": {func(*schema.Document) {}, nil},
		"a hook that is new": {func(d *schema.Document) {
			d.Hooks["hooks.example.org/v1/Second"] = &schema.Hook{Request: "a.Request", Response: "a.Response"}
		}, nil},
		"a removal in a new version": {func(d *schema.Document) {
			d.Types["a.Smaller"] = &schema.Type{Kind: schema.Object, Fields: map[string]*schema.Field{
				"mode": d.Types["a.Request"].Fields["mode"],
			}}
			d.Hooks["hooks.example.org/v2/First"] = &schema.Hook{Request: "a.Smaller", Response: "a.Response", Blocking: true}
		}, nil},
		"a hook that is gone": {func(d *schema.Document) { delete(d.Hooks, name) },
			[]string{"break RS-01 First: the hook was removed and no other version of it is there"}},
		"a field that is gone, in three places": {func(d *schema.Document) {
			delete(d.Types["a.Host"].Fields, "name")
		}, []string{
			"break RS-01 First: request.host.name: the field was removed",
			"break RS-01 First: request.list[].name: the field was removed",
		}},
		"a type that changed": {func(d *schema.Document) { d.Types["a.Host"].Fields["name"].Kind = schema.Integer }, []string{
			"break RS-01 First: request.host.name: it was string and is integer",
			"break RS-01 First: request.list[].name: it was string and is integer",
		}},
		"a format that changed": {func(d *schema.Document) { d.Types["a.Request"].Fields["map"].Items.Format = "int64" },
			[]string{"break RS-01 First: request.map{}: it was integer (int32) and is integer (int64)"}},
		"a value that is gone": {func(d *schema.Document) { d.Types["a.Request"].Fields["mode"].Enum = []string{"Soft"} },
			[]string{`break RS-01 First: request.mode: the value "Hard" was removed`}},
		"a value that callers may send now": {func(d *schema.Document) {
			d.Types["a.Request"].Fields["mode"].Enum = []string{"Hard", "Soft", "Wet"}
		},
			[]string{
				`warning RS-02 First: request.mode: the value "Wet" is new: extensions meet a value that they do not know`,
			}},
		"a value that extensions may send now": {func(d *schema.Document) {
			d.Types["a.Response"].Fields["status"].Enum = []string{"Failure", "Maybe", "Success"}
		}, nil},
		"an enumeration where any value was allowed": {func(d *schema.Document) {
			d.Types["a.Response"].Fields["message"].Enum = []string{"fine"}
		},
			[]string{`break RS-01 First: response.message: only these values are allowed now: fine`}},
		"any value where an enumeration was": {
			func(d *schema.Document) { d.Types["a.Request"].Fields["mode"].Enum = nil },
			[]string{`warning RS-02 First: request.mode: any value is possible now`},
		},
		"an optional field in a request": {
			func(d *schema.Document) { d.Types["a.Request"].Fields["new"] = &schema.Field{Type: text} }, nil,
		},
		"an optional field in a response": {
			func(d *schema.Document) { d.Types["a.Response"].Fields["new"] = &schema.Field{Type: text} }, nil,
		},
		"a required field in a request": {func(d *schema.Document) {
			d.Types["a.Request"].Fields["new"] = &schema.Field{Type: text, Required: true}
		},
			[]string{"warning RS-03 First: request.new: a required field is new: callers of the older release do not send it"}},
		"a required field in a response": {func(d *schema.Document) {
			d.Types["a.Response"].Fields["new"] = &schema.Field{Type: text, Required: true}
		},
			[]string{"break RS-04 First: response.new: a required field is new: extensions that do not know it are refused"}},
		"optional becomes required in a response": {func(d *schema.Document) {
			d.Types["a.Response"].Fields["message"].Required = true
		},
			[]string{
				"break RS-02 First: response.message: the field is required now: extensions that leave it out are refused",
			}},
		"optional becomes required in a request": {
			func(d *schema.Document) { d.Types["a.Request"].Fields["mode"].Required = true }, nil,
		},
		"required becomes optional in a request": {func(d *schema.Document) {
			d.Types["a.Request"].Fields["host"].Required = false
		},
			[]string{"break RS-02 First: request.host: the field is optional now: extensions that rely on it find nothing"}},
		"required becomes optional in a response": {
			func(d *schema.Document) { d.Types["a.Response"].Fields["status"].Required = false }, nil,
		},
		"a hook that blocks no longer": {func(d *schema.Document) {
			d.Hooks[name].Blocking = false
			delete(d.Types["a.Response"].Fields, "retryAfterSeconds")
		}, []string{
			"break RS-02 First: the hook no longer blocks: extensions that hold something back with it no longer do",
		}},
		"another type of the same shape": {func(d *schema.Document) {
			d.Types["b.Host"] = &schema.Type{Kind: schema.Object, Fields: map[string]*schema.Field{
				"name": d.Types["a.Host"].Fields["name"], "parent": {Type: schema.Type{Ref: "b.Host"}},
			}}
			d.Types["a.Request"].Fields["host"].Ref = "b.Host"
		}, nil},
		"another type of another shape": {func(d *schema.Document) {
			d.Types["b.Host"] = &schema.Type{
				Kind: schema.Object, Fields: map[string]*schema.Field{"name": d.Types["a.Host"].Fields["name"]},
			}
			d.Types["a.Request"].Fields["host"].Ref = "b.Host"
		}, []string{
			"break RS-02 First: request.host: the type b.Host replaced a.Host within one version of the hook",
			"break RS-01 First: request.host.parent: the field was removed",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now := first()
			c.change(now)
			var got []string
			for _, f := range rules.Compare(first(), now, rules.Releases{}) {
				got = append(got, f.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			switch name {
			case "a hook that is gone", "a field that is gone, in three places":
				t.Attr("rule", "RS-01")
			case "a hook that blocks no longer", "another type of another shape":
				t.Attr("rule", "RS-02")
			case "a required field in a response":
				t.Attr("rule", "RS-04")
			case "a type that changed", "a removal in a new version":
				t.Attr("rule", "RS-07")
			}
		})
	}
}

func TestCompareFindsNewBlocking(t *testing.T) {
	before := first()
	before.Hooks[name].Blocking = false
	delete(before.Types["a.Response"].Fields, "retryAfterSeconds")
	got := rules.Compare(before, first(), rules.Releases{})
	if len(got) != 1 || got[0].Rule != "RS-02" || got[0].Severity != rules.Break {
		t.Errorf("got %v", got)
	}
}

// Deprecation periods, counted in releases and in months (RS-05, RS-06).
func TestDeprecationPeriods(t *testing.T) {
	for name, c := range map[string]struct {
		version, other           string
		deprecated, deprecatedOn string
		now                      hook.Release
		day                      string
		want                     string // part of the one finding, "" for none
	}{
		"alpha version, removed at once": {"v1alpha1", "v1alpha2", "", "", "v1.14", "2026-11-21", ""},
		"stable version, not deprecated": {"v1", "v2", "", "", "v1.14", "2026-11-21",
			"break RS-06 First: the stable version was removed without having been deprecated"},
		"stable version, three releases and a year": {"v1", "v2", "v1.11", "2025-11-21", "v1.14", "2026-11-21", ""},
		"stable version, three releases in ten months": {"v1", "v2", "v1.11", "2026-01-21", "v1.14", "2026-11-21",
			"break RS-06 First: the stable version was deprecated on 2026-01-21: it stays until 2027-01-21"},
		"stable version, two releases": {"v1", "v2", "v1.12", "2025-01-01", "v1.14", "2026-11-21",
			"break RS-06 First: the stable version was deprecated in v1.12 and is gone in v1.14: it stays for 3 releases"},
		"beta, two releases and half a year": {"v1beta1", "v1", "v1.12", "2026-05-21", "v1.14", "2026-11-21", ""},
		"the release is unknown": {"v1beta1", "v1", "v1.12", "2026-05-21", "", "2026-11-21",
			"warning RS-06"},
		"the deprecation has no date": {"v1beta1", "v1", "v1.12", "", "v1.14", "2026-11-21", "warning RS-06"},
	} {
		before, now := schema.New(), schema.New()
		for _, d := range []*schema.Document{before, now} {
			d.Types["a.A"] = &schema.Type{Kind: schema.Object}
		}
		before.Hooks["hooks.example.org/"+c.version+"/First"] = &schema.Hook{
			Request: "a.A", Response: "a.A", Deprecated: c.deprecated, DeprecatedOn: c.deprecatedOn,
		}
		now.Hooks["hooks.example.org/"+c.other+"/First"] = &schema.Hook{Request: "a.A", Response: "a.A"}
		day, err := time.Parse(time.DateOnly, c.day)
		if err != nil {
			t.Fatal(err)
		}
		got := rules.Compare(before, now, rules.Releases{Now: c.now, Day: day})
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].String(), c.want)) {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
		t.Attr("rule", "RS-06")
	}
	before, now := first(), first()
	now.Hooks[name].Deprecated = "v1.14"
	if got := rules.Compare(before, now, rules.Releases{}); len(got) != 1 || got[0].Rule != "RS-05" ||
		got[0].Severity != rules.Break {
		t.Errorf("deprecated without a replacement: %v", got)
	}
	t.Attr("rule", "RS-05")
	now.Hooks["hooks.example.org/v2/First"] = &schema.Hook{Request: "a.Request", Response: "a.Response"}
	if got := rules.Compare(before, now, rules.Releases{}); len(got) != 1 || got[0].Severity != rules.Warning {
		t.Errorf("deprecated in favour of v2: %v", got)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.lock.json")
	if _, err := rules.ReadLock(path); !rules.IsMissing(err) {
		t.Errorf("without a file: %v", err)
	}
	d := first()
	d.Types["a.Request"].Fields["host"].Description = "text that a lock file does not need"
	lock := &rules.Lock{Package: "example.org/hooks", Release: "v1.14", Document: d}
	if err := lock.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := rules.ReadLock(path)
	if err != nil || read.Package != lock.Package || read.Release != "v1.14" ||
		len(rules.Compare(read.Document, d, rules.Releases{})) > 0 {
		t.Errorf("%+v, %v", read, err)
	}
	one, err := read.Encode()
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(path)
	if err != nil || string(one) != string(two) || strings.Contains(string(two), "text that") {
		t.Errorf("the text changed, or has descriptions, %v", err)
	}
	for name, text := range map[string]string{
		"no JSON": `{`, "no hooks": `{}`,
		"a reference to a missing type": `{"hooks":{"g/v1/H":{"request":"a.B","response":"a.B"}},"types":{}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := rules.ReadLock(path); err == nil || rules.IsMissing(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// read caches the releases that tests have read, by version.
var read = map[string]*schema.Document{}

// release reads the hooks of a published release. It skips the test on a machine that neither has the release nor can
// download it.
func release(t *testing.T, version string) *schema.Document {
	t.Helper()
	if d, ok := read[version]; ok {
		return d
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	m, err := schema.OpenModule(ctx, "sigs.k8s.io/cluster-api@"+version)
	if err != nil {
		t.Skipf("release %s of Cluster API can't be downloaded here: %v", version, err)
	}
	source := &schema.Source{Locate: m.Locate}
	d, err := source.Read(ctx, "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	if missing := source.Missing(); len(missing) > 0 {
		t.Skipf("packages of release %s can't be downloaded here: %s", version, missing)
	}
	read[version] = d
	return d
}

// Two published releases: in v1.13 Cluster API swapped the embedded Cluster from v1beta1 to v1beta2 within v1alpha1 of
// its hooks (D-30, RS-02).
func TestTheBreakInV113IsFound(t *testing.T) {
	before, now := release(t, "v1.12.0"), release(t, "v1.13.4")
	found := rules.Compare(before, now, rules.Releases{Now: "v1.13"})
	swapped, class := false, false
	for _, f := range found {
		if f.Severity != rules.Break {
			continue
		}
		if f.Path == "request.cluster" && strings.Contains(f.Message, "core/v1beta2.Cluster replaced") &&
			len(f.Hooks) > 8 {
			swapped = true
		}
		if f.Path == "request.cluster.spec.topology.class" && f.Message == "the field was removed" {
			class = true
		}
	}
	if !swapped || !class {
		for _, f := range found {
			t.Log(f)
		}
		t.Errorf("the swap was found: %t, the field that it removed: %t", swapped, class)
	}

	config := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "quota"}}
	group := "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	config.Status.Handlers = []runtimev1.ExtensionHandler{
		{Name: "patches.quota", RequestHook: runtimev1.GroupVersionHook{APIVersion: group, Hook: "DiscoverVariables"}},
		{Name: "create.quota", RequestHook: runtimev1.GroupVersionHook{APIVersion: group, Hook: "BeforeClusterCreate"}},
		{Name: "own.quota", RequestHook: runtimev1.GroupVersionHook{
			APIVersion: "hooks.example.org/v1", Hook: "BeforePowerOff",
		}},
	}
	impacts := rules.Preflight([]runtimev1.ExtensionConfig{config}, before, now, rules.Releases{Now: "v1.13"})
	if len(impacts) != 3 || impacts[0].Handler != "create.quota" || impacts[0].Verdict != rules.Break ||
		impacts[1].Verdict != rules.Break {
		t.Errorf("impacts are %+v", impacts)
	}
}

// v1.12 made AfterClusterUpgrade block (D-30).
func TestTheBreakInV112IsFound(t *testing.T) {
	found := rules.Compare(release(t, "v1.11.0"), release(t, "v1.12.0"), rules.Releases{Now: "v1.12"})
	if !slices.ContainsFunc(found, func(f rules.Finding) bool {
		return f.Severity == rules.Break && f.Path == "" && strings.HasSuffix(f.Hooks[0], "/AfterClusterUpgrade") &&
			strings.HasPrefix(f.Message, "the hook blocks now")
	}) {
		t.Errorf("found %v", found)
	}
}

// Upgrading to the same release breaks nothing (RC-23).
func TestPreflightOfTheSameRelease(t *testing.T) {
	d := first()
	config := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	config.Status.Handlers = []runtimev1.ExtensionHandler{
		{Name: "h.a", RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.example.org/v1", Hook: "First"}},
	}
	impacts := rules.Preflight([]runtimev1.ExtensionConfig{config}, d, d, rules.Releases{})
	if len(impacts) != 1 || impacts[0].Verdict != "" {
		t.Errorf("impacts are %+v", impacts)
	}
	t.Attr("rule", "RC-23")
	// Even if the rules allow the removal of an alpha version, the handler stops working.
	older, newer := schema.New(), schema.New()
	older.Types, newer.Types = d.Types, d.Types
	older.Hooks["hooks.example.org/v1alpha1/First"], newer.Hooks["hooks.example.org/v1alpha2/First"] =
		d.Hooks[name], d.Hooks[name]
	config.Status.Handlers[0].RequestHook.APIVersion = "hooks.example.org/v1alpha1"
	if impacts := rules.Preflight([]runtimev1.ExtensionConfig{config}, older, newer,
		rules.Releases{}); impacts[0].Verdict != rules.Break {
		t.Errorf("impacts are %+v", impacts)
	}
}
