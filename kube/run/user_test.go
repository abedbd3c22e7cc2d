//go:build linux

package run

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestUsers(t *testing.T) {
	w := newWorld(t)
	num := func(n int64) *int64 { return &n }
	cases := map[string]struct {
		user     User
		uid, gid int
		groups   []int // with all ids
		home     string
	}{
		"root":    {User{}, 0, 0, nil, "/root"},
		"by name": {User{Name: "web"}, 101, 102, []int{103}, "/srv/web"},
		"by name, with only the given groups": {User{Name: "web", Groups: []int64{7}, Strict: true}, 101, 102, []int{7},
			"/srv/web"},
		"a number with a name":    {User{UID: num(101), Groups: []int64{9}}, 101, 102, []int{9, 103}, "/srv/web"},
		"a number without a name": {User{UID: num(5000)}, 5000, 0, nil, "/"},
		"a number with a group":   {User{UID: num(5000), GID: num(6000)}, 5000, 6000, nil, "/"},
		"number and group name":   {User{Name: "101:logs"}, 101, 103, []int{103}, "/srv/web"},
		"root of another group":   {User{UID: num(0), GID: num(50)}, 0, 50, nil, "/root"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := w.spec("facts", "write=/dev/shm/x", "reopen")
			spec.Process.User = c.user
			b := w.start(spec)
			if code := b.wait(); code != 0 {
				t.Fatalf("exit code %d: %s", code, b.output())
			}
			line, rest, _ := strings.Cut(b.output(), "\n")
			f := parse(t, line)
			if f.UID != c.uid || f.GID != c.gid || !slices.Contains(f.Env, "HOME="+c.home) {
				t.Errorf("user %d, group %d, environment %q, want %d, %d, home %s", f.UID, f.GID, f.Env, c.uid, c.gid,
					c.home)
			}
			if rest != "write /dev/shm/x ok\nreopened\n" {
				t.Errorf("the program prints %q", rest)
			}
			if int(b.report.User.UID) != c.uid || int(b.report.User.GID) != c.gid {
				t.Errorf("the report has the user %+v", b.report.User)
			}
			want := c.groups
			if w.one {
				want = nil
			}
			if got := slices.DeleteFunc(f.Groups, func(g int) bool {
				return g == f.GID ||
					g == 65534
			}); !slices.Equal(got,
				slices.DeleteFunc(slices.Clone(want), func(g int) bool { return g == c.gid })) {
				t.Errorf("groups %v, want %v", f.Groups, want)
			}
			lost := w.one && slices.ContainsFunc(c.groups, func(g int) bool { return g != c.gid })
			if said := slices.ContainsFunc(b.report.Notes, func(n string) bool {
				return strings.Contains(n,
					"without groups")
			}); said != lost {
				t.Errorf("notes %q; groups were lost: %v", b.report.Notes, lost)
			}
		})
	}
}

// A volume can replace the image's account files, /etc/passwd and /etc/group.
func TestAccountsOfAVolume(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, "accounts")
	w.must(os.Mkdir(dir, 0o755))
	for name, text := range map[string]string{
		"passwd": "guest:x:201:202::/srv/guest:/bin/sh\n", "group": "guests:x:203:guest\n",
	} {
		w.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	file := func(name string) Mount { return Mount{Source: filepath.Join(dir, name), Target: "/etc/" + name} }
	for name, mounts := range map[string][]Mount{
		"a directory": {{Source: dir, Target: "/etc/"}},
		"files":       {file("group"), file("passwd")},
	} {
		t.Run(name, func(t *testing.T) {
			spec := w.spec("facts")
			spec.Mounts = mounts
			spec.Process.User.Name = "guest:guests"
			f := parse(t, w.run(spec))
			if f.UID != 201 || f.GID != 203 || !slices.Contains(f.Env, "HOME=/srv/guest") {
				t.Errorf("user %d of group %d with the environment %q", f.UID, f.GID, f.Env)
			}
		})
	}
}

// Files belong to the user of the program that writes them. On a host with one id, all files belong to this id.
func TestAUserOwnsWhatItWrites(t *testing.T) {
	w := newWorld(t)
	volume := filepath.Join(w.dir, "volume")
	w.must(os.Mkdir(volume, 0o777))
	w.must(os.Chmod(volume, 0o777))
	spec := w.spec("write=/volume/x", "call=setuid", "call=chown")
	spec.Mounts = []Mount{{Source: volume, Target: "/volume"}}
	spec.Process.User.Name = "web"
	if out := w.run(spec); out != "write /volume/x ok\ncall setuid EPERM\ncall chown EPERM\n" && !w.one {
		t.Errorf("got %q", out)
	}
	var st unix.Stat_t
	w.must(unix.Stat(filepath.Join(volume, "x"), &st))
	want := uint32(101)
	if w.one {
		want = 0
	}
	if st.Uid != want {
		t.Errorf("the file belongs to %d, want %d", st.Uid, want)
	}
}

// On a host with one id, there is advice for a program that starts as root if its image has further users.
func TestAdvice(t *testing.T) {
	w := newWorld(t)
	advice := func(user User) string {
		spec := w.spec("facts")
		spec.Process.User = user
		b := w.start(spec)
		b.wait()
		return b.report.Advice
	}
	if got := advice(User{Name: "web"}); got != "" {
		t.Errorf("a program that runs as one of the users gets the advice %q", got)
	}
	if got := advice(User{}); (got != "") != w.one || w.one && !strings.Contains(got, `user "web"`) {
		t.Errorf("root gets the advice %q", got)
	}
	w.must(os.WriteFile(filepath.Join(w.layer, "etc/passwd"),
		[]byte("root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"), 0o644))
	if got := advice(User{}); got != "" {
		t.Errorf("with an image that has only the usual users, root gets the advice %q", got)
	}
}

func TestAmbientCapabilities(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("facts")
	spec.Process.User.Name = "web"
	spec.Process.Capabilities.Ambient = []string{"CAP_NET_BIND_SERVICE"}
	f := parse(t, w.run(spec))
	for _, set := range []string{"CapAmb", "CapEff", "CapPrm", "CapInh"} {
		if f.Status[set] != "0000000000000400" {
			t.Errorf("%s is %s", set, f.Status[set])
		}
	}
}

func TestPlace(t *testing.T) {
	all := ids{users: mapping{{0, 65536}}, groups: mapping{{0, 65536}}, setGroups: true}
	one := ids{users: mapping{{0, 1}}, groups: mapping{{0, 1}}}
	cases := map[string]struct {
		ids    ids
		id     Identity
		groups []int64
		nested bool
		note   string
	}{
		"any user of all ids":           {all, Identity{UID: 7, GID: 8, Groups: []int64{9}}, []int64{9}, false, ""},
		"root, one id":                  {one, Identity{}, nil, false, ""},
		"another user, one id":          {one, Identity{UID: 7}, nil, true, ""},
		"another group, one id":         {one, Identity{GID: 7}, nil, true, ""},
		"further groups, one id":        {one, Identity{Groups: []int64{5, 6}}, nil, false, "without groups 5, 6"},
		"the group given twice, one id": {one, Identity{UID: 7, GID: 7, Groups: []int64{7}}, nil, true, ""},
		"a user beyond all ids":         {all, Identity{UID: 70000}, nil, true, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			placed, nested, notes := c.ids.place(c.id)
			if !slices.Equal(placed.Groups, c.groups) || nested != c.nested || !strings.HasPrefix(strings.Join(notes,
				""), c.note) ||
				(c.note == "") != (len(notes) == 0) {
				t.Errorf("got %+v, nested %v, %q", placed, nested, notes)
			}
		})
	}
}
