package local

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/home"
)

func TestBundleOptions(t *testing.T) {
	text := func(s string) *string { return &s }
	const fromMirror = "--bundle-source Mirror --bundle-mirror https://mirror.example/capstan"
	mirrored := Bundles{Policy: infrav1.BundlePolicy{
		Source: infrav1.BundlesFromMirror, Mirror: infrav1.BundleMirror{URL: "https://mirror.example/capstan"},
	}, Bandwidth: 1 << 20}
	for name, c := range map[string]struct {
		kept    Bundles
		options BundleOptions
		want    string // the plane's arguments, or what the error says
	}{
		"no options, nothing kept":   {want: ""},
		"no options keep everything": {mirrored, BundleOptions{}, fromMirror + " --bundle-bandwidth 1048576"},
		"a bandwidth":                {Bundles{}, BundleOptions{Bandwidth: text("20M")}, "--bundle-bandwidth 20000000"},
		"bandwidth 0 removes the limit": {
			mirrored, BundleOptions{Bandwidth: text("0")}, fromMirror,
		},
		"an empty bandwidth removes the limit": {Bundles{Bandwidth: 1 << 20}, BundleOptions{Bandwidth: text("")}, ""},
		"a bandwidth below the minimum":        {Bundles{}, BundleOptions{Bandwidth: text("1k")}, "at least 64Ki"},
		"a negative bandwidth":                 {Bundles{}, BundleOptions{Bandwidth: text("-20M")}, "at least 64Ki"},
		"an invalid bandwidth": {
			Bundles{}, BundleOptions{Bandwidth: text("20 MB")}, `can't be "20 MB"`,
		},
		"another source drops the mirror": {
			mirrored, BundleOptions{Source: text("Plane")}, "--bundle-source Plane --bundle-bandwidth 1048576",
		},
		"an empty source restores the default": {
			mirrored, BundleOptions{Source: text("")}, "--bundle-bandwidth 1048576",
		},
		"another mirror keeps the source": {
			mirrored, BundleOptions{Mirror: text("http://other.example")},
			"--bundle-source Mirror --bundle-mirror http://other.example --bundle-bandwidth 1048576",
		},
		"a mirror without its source": {
			Bundles{}, BundleOptions{Mirror: text("http://other.example")}, "--bundle-mirror is for --bundle-source Mirror",
		},
		"a source without its mirror": {Bundles{}, BundleOptions{Source: text("Mirror")}, "needs --bundle-mirror"},
		"an unknown source":           {Bundles{}, BundleOptions{Source: text("Cloud")}, `can't be "Cloud"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.options.applied(c.kept)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || c.want == "" {
					t.Errorf("error %v, want %q", err, c.want)
				}
				return
			}
			s := &starter{home: home.Dir(t.TempDir()), hosts: 3, bundles: got}
			argv := strings.Join(s.unit("127.0.0.1:1").Argv, " ")
			if !strings.HasSuffix(argv, c.want) || c.want == "" && strings.Contains(argv, "--bundle") {
				t.Errorf("the plane is run as %q, want %q", argv, c.want)
			}
		})
	}
}

// TestBundlesAreKept: the choice of bundles is kept for the next start.
func TestBundlesAreKept(t *testing.T) {
	dir := home.Dir(t.TempDir())
	wanted := choices{Hosts: 3, Bundles: Bundles{Bandwidth: 1 << 20}}
	if _, err := choose(dir, wanted); err != nil {
		t.Fatal(err)
	}
	kept, err := readChoices(dir)
	if err != nil || !reflect.DeepEqual(kept.Bundles, wanted.Bundles) {
		t.Errorf("the kept choice is %+v, error %v", kept, err)
	}
	if again, err := (BundleOptions{}).applied(kept.Bundles); err != nil || !reflect.DeepEqual(again, wanted.Bundles) {
		t.Errorf("the next start uses %+v, error %v", again, err)
	}
	if slices.Contains((Bundles{}).arguments(), "--bundle-source") {
		t.Error("without a choice, the arguments contain --bundle-source")
	}
}
