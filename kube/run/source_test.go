//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAMissingSource checks what happens to sources that the host lacks. They are created if the mount says so, but not
// where a link leads nowhere, and not through a magic link, which may lead out of the host's root.
func TestAMissingSource(t *testing.T) {
	w := newWorld(t)
	host := filepath.Join(w.dir, "host")
	w.must(os.MkdirAll(filepath.Join(host, "real"), 0o755))
	w.must(os.Symlink("real", filepath.Join(host, "link")))
	w.must(os.Symlink("nothing", filepath.Join(host, "dangling")))
	cases := map[string]struct {
		source string
		create bool
		made   string // the directory that is created below host, or "" if none is
		want   string
	}{
		"some directories":       {"a/b/c", true, "a/b/c", ""},
		"through a link":         {"link/d", true, "real/d", ""},
		"creation not requested": {"e", false, "", "e on the host"},
		"at a broken link":       {"dangling", true, "", "is a link to something that does not exist"},
		"below a broken link":    {"dangling/f", true, "", "is a link to something that does not exist"},
		"through a magic link":   {"/proc/self/root" + host + "/g", true, "", "the path goes through a link of /proc"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			source := c.source
			if !filepath.IsAbs(source) {
				source = filepath.Join(host, source)
			}
			spec := w.spec("write=/m/file")
			spec.Mounts = []Mount{{Source: source, Target: "/m", Create: c.create}}
			if c.want == "" {
				if out := w.run(spec); out != "write /m/file ok\n" {
					t.Errorf("got %q", out)
				}
				if _, err := os.Stat(filepath.Join(host, c.made, "file")); err != nil {
					t.Error(err)
				}
				return
			}
			b := w.try(spec)
			if !strings.Contains(b.report.Error, c.want) {
				t.Errorf("the report is %+v, want %q", b.report, c.want)
			}
			<-b.ended
			for _, none := range []string{"e", "nothing", "real/nothing", "g"} {
				if _, err := os.Lstat(filepath.Join(host, none)); err == nil {
					t.Errorf("%s was made", none)
				}
			}
		})
	}
}
