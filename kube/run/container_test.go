//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// facts are what testdata/program prints.
type facts struct {
	PID, UID, GID  int
	Groups         []int
	Dir, Host      string
	Env            []string
	Status         map[string]string
	Namespaces     map[string]string
	Mounts         []string
	OpenFiles      int64
	OOMScoreAdj    string
	Links          map[string]string
	Terminal       bool
	Rows, Cols     uint16
	Processes      int
	NetworkDevices []string
}

func parse(t testing.TB, out string) (f facts) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return f
}

func TestAContainerIsApart(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("facts")
	spec.Process.Dir = "/srv/dir"
	spec.Process.Rlimits = []Rlimit{{"RLIMIT_NOFILE", 500, 600}}
	score := 300
	spec.Process.OOMScoreAdj = &score
	spec.Masked = []string{"/proc/uptime", "/proc/acpi", "/sys/firmware", "/no/such/path"}
	spec.ReadOnly = []string{"/proc/sys", "/proc/no-such-file"}
	b := w.start(spec)
	if len(b.report.Notes) > 0 {
		t.Errorf("the start left out %q", b.report.Notes)
	}
	if code := b.wait(); code != 0 {
		t.Fatalf("exit code %d: %s", code, b.output())
	}
	f := parse(t, b.output())
	if f.PID != 1 || f.Processes != 1 || f.Host != "pod" || f.Dir != "/srv/dir" || f.UID != 0 || f.OpenFiles != 600 {
		t.Errorf("process %d of %d, host %s, directory %s, user %d, %d open files", f.PID, f.Processes, f.Host, f.Dir,
			f.UID, f.OpenFiles)
	}
	if f.OOMScoreAdj != "300" {
		t.Errorf("oom_score_adj is %s", f.OOMScoreAdj)
	}
	for _, ns := range []string{"pid", "net", "ipc", "uts", "mnt"} {
		if own, err := os.Readlink("/proc/self/ns/" + ns); err != nil || own == f.Namespaces[ns] {
			t.Errorf("%s namespace %s is the host's (%v)", ns, f.Namespaces[ns], err)
		}
	}
	for _, want := range [][]string{
		{"/", "overlay"}, {"/proc", "proc"}, {"/sys", "sysfs", "ro"}, {"/dev", "tmpfs"}, {"/dev/pts", "devpts"},
		{"/dev/shm", "tmpfs"},
		{"/dev/mqueue", "mqueue"}, {"/dev/null"}, {"/dev/urandom"}, {"/proc/sys", "ro"}, {"/proc/uptime"},
	} {
		if !has(f.Mounts, want...) {
			t.Errorf("there is no mount %v in\n%s", want, strings.Join(f.Mounts, "\n"))
		}
	}
	if len(f.NetworkDevices) != 1 || f.NetworkDevices[0] != "lo" {
		t.Errorf("network devices %v", f.NetworkDevices)
	}
	if f.Status["NoNewPrivs"] != "1" || f.Status["CapAmb"] != "0000000000000000" ||
		f.Status["CapBnd"] != "00000000000004e1" ||
		f.Status["CapEff"] != "00000000000004e1" || f.Status["CapInh"] != "0000000000000000" {
		t.Errorf("rights: %v", f.Status)
	}
	if want := []string{"PATH=/usr/bin:/bin", "HOME=/root"}; !slices.Equal(f.Env, want) {
		t.Errorf("environment %q, want %q", f.Env, want)
	}
	if strings.Contains(f.Links["/proc/1/exe"], "capstan-run") {
		t.Errorf("the first process is %s, not the program", f.Links["/proc/1/exe"])
	}
	for _, m := range f.Mounts {
		if strings.Contains(m, w.dir) && !strings.HasPrefix(m, "/ ") {
			t.Errorf("the host's directories show: %s", m)
		}
	}
}

func TestWritesStayInTheContainer(t *testing.T) {
	w := newWorld(t)
	upper := filepath.Join(w.dir, "second")
	w.must(os.MkdirAll(filepath.Join(upper, "gone"), 0o755))
	w.must(unix.Setxattr(filepath.Join(upper, "gone"), "user.overlay.opaque", []byte("y"), 0))
	w.must(os.WriteFile(filepath.Join(upper, "replaced"), []byte("upper\n"), 0o644))
	w.must(unix.Mknod(filepath.Join(upper, "chowned"), unix.S_IFCHR, 0))
	spec := w.spec("cat=/replaced", "list=/gone", "list=/", "write=/etc/new", "write=/replaced",
		"write=/proc/sys/kernel/domainname")
	spec.Layers = append(spec.Layers, upper)
	spec.ReadOnly = []string{"/proc/sys"}
	out := w.run(spec)
	want := "upper\nlist /gone  ok\nlist / bin,dev,etc,gone,proc,replaced,sys,var ok\n" +
		"write /etc/new ok\nwrite /replaced ok\n" +
		"write /proc/sys/kernel/domainname EROFS\n"
	if out != want {
		t.Errorf("got %s, want %s", out, want)
	}
	if _, err := os.Stat(filepath.Join(w.layer, "etc/new")); err == nil {
		t.Error("a file was written to the image")
	}
	if data, _ := os.ReadFile(filepath.Join(upper, "replaced")); string(data) != "upper\n" {
		t.Errorf("the image's file is %q", data)
	}
}

func TestAReadOnlyRoot(t *testing.T) {
	w := newWorld(t)
	volume := filepath.Join(w.dir, "volume")
	w.must(os.Mkdir(volume, 0o777))
	spec := w.spec("write=/etc/new", "write=/volume/new", "write=/dev/shm/new")
	spec.ReadOnlyRoot = true
	spec.Mounts = []Mount{{Source: volume, Target: "/volume"}}
	if out := w.run(spec); out != "write /etc/new EROFS\nwrite /volume/new ok\nwrite /dev/shm/new ok\n" {
		t.Errorf("got %s", out)
	}
}

// TestAnImageAsAVolume checks that an image is mounted read-only with all its layers, and that no path in it leads out.
func TestAnImageAsAVolume(t *testing.T) {
	w := newWorld(t)
	lower, upper := filepath.Join(w.dir, "lower"), filepath.Join(w.dir, "upper")
	for _, dir := range []string{lower, upper} {
		w.must(os.MkdirAll(filepath.Join(dir, "share/data"), 0o755))
	}
	w.must(os.WriteFile(filepath.Join(lower, "share/data/both"), []byte("lower\n"), 0o644))
	w.must(os.WriteFile(filepath.Join(upper, "share/data/both"), []byte("upper\n"), 0o644))
	w.must(os.WriteFile(filepath.Join(lower, "share/below"), []byte("below\n"), 0o644))
	w.must(os.WriteFile(filepath.Join(lower, "gone"), nil, 0o644))
	w.must(unix.Mknod(filepath.Join(upper, "gone"), unix.S_IFCHR, 0))
	w.must(os.Symlink("/share/data", filepath.Join(upper, "link")))
	w.must(os.Symlink("../../../../../etc", filepath.Join(upper, "escape")))
	two := []string{lower, upper}
	for name, c := range map[string]struct {
		layers     []string
		path, want string // the path of what is mounted at /volume/here, and the output or ""
		args       []string
	}{
		"the whole image": {two, "", "list /volume/here escape,link,share ok\nbelow\nupper\n" +
			"write /volume/here/new EROFS\nwrite /volume/here/share/data/both EROFS\n", []string{
			"list=/volume/here", "cat=/volume/here/share/below", "cat=/volume/here/share/data/both",
			"write=/volume/here/new", "write=/volume/here/share/data/both",
		}},
		"one layer": {[]string{upper}, "share", "list /volume/here data ok\nwrite /volume/here/new EROFS\n", []string{
			"list=/volume/here", "write=/volume/here/new",
		}},
		"a directory": {two, "share/data", "list /volume/here both ok\nwrite /volume/here/new EROFS\n", []string{
			"list=/volume/here", "write=/volume/here/new",
		}},
		"a file":                     {two, "share/below", "below\n", []string{"cat=/volume/here"}},
		"a link":                     {two, "link", "upper\n", []string{"cat=/volume/here/both"}},
		"a missing path":             {two, "share/none", "", nil},
		"a deleted file":             {two, "gone", "", nil},
		"a path out of the image":    {two, "../../etc", "", nil},
		"a link out of the image":    {two, "escape", "", nil},
		"a path through such a link": {two, "escape/passwd", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := w.spec(c.args...)
			spec.Mounts = []Mount{{Source: c.path, Target: "/volume/here", Layers: c.layers}}
			if c.want == "" {
				if err := w.try(spec).report.Error; !strings.Contains(err, "has no "+c.path) {
					t.Errorf("got the error %q", err)
				}
			} else if got := w.run(spec); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMounts(t *testing.T) {
	w := newWorld(t)
	source := filepath.Join(w.dir, "source")
	w.must(os.MkdirAll(filepath.Join(source, "below"), 0o777))
	w.must(os.WriteFile(filepath.Join(source, "file"), []byte("host\n"), 0o666))
	w.must(unix.Mount("tmpfs", filepath.Join(source, "below"), "tmpfs", 0, "mode=777"))
	defer unix.Unmount(filepath.Join(source, "below"), 0)
	// A link in the image that would lead out of it.
	w.must(os.Symlink(filepath.Join(w.dir, "outside"), filepath.Join(w.layer, "escape")))
	cases := map[string]struct {
		mount Mount
		args  []string
		want  string
	}{
		"a file over a file of the image": {
			Mount{Source: filepath.Join(source, "file"), Target: "/etc/hostile"}, []string{"cat=/etc/hostile"},
			"host\n",
		},
		"a directory that the image does not have": {
			Mount{Source: source, Target: "/a/b/c"}, []string{"cat=/a/b/c/file", "write=/a/b/c/below/x"},
			"host\nwrite /a/b/c/below/x ok\n",
		},
		"read-only without the mounts below": {
			Mount{Source: source, Target: "/m", ReadOnly: true}, []string{"write=/m/x", "write=/m/below/x"},
			"write /m/x EROFS\nwrite /m/below/x ok\n",
		},
		"read-only with the mounts below": {
			Mount{Source: source, Target: "/m", ReadOnly: true, Recursive: true}, []string{"write=/m/x",
				"write=/m/below/x"},
			"write /m/x EROFS\nwrite /m/below/x EROFS\n",
		},
		"a target through a link of the image stays inside": {
			Mount{Source: filepath.Join(source, "file"), Target: "/escape/file"}, []string{"cat=" +
				filepath.Join(w.dir, "outside/file")}, "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := w.spec(c.args...)
			spec.Mounts = []Mount{c.mount}
			if c.want == "" {
				b := w.try(spec)
				if !strings.Contains(b.report.Error, "is a link to something that does not exist") {
					t.Errorf("the container started: %+v", b.report)
				}
				<-b.ended
			} else if out := w.run(spec); out != c.want {
				t.Errorf("got %q, want %q", out, c.want)
			}
			if _, err := os.Lstat(filepath.Join(w.dir, "outside")); err == nil {
				t.Error("something was created outside the root")
			}
		})
	}
}

func TestMountPropagation(t *testing.T) {
	w := newWorld(t)
	source := filepath.Join(w.dir, "shared")
	w.must(os.Mkdir(source, 0o755))
	w.must(unix.Mount("tmpfs", source, "tmpfs", 0, "mode=777"))
	defer unix.Unmount(source, unix.MNT_DETACH)
	spec := w.spec("facts", "wait")
	spec.Mounts = []Mount{{Source: source, Target: "/m", Propagation: Bidirectional}}
	b := w.try(spec)
	if !strings.Contains(b.report.Error, "not on a shared mount") {
		t.Errorf("a private mount was accepted as a shared one: %+v", b.report)
	}
	<-b.ended
	w.must(unix.Mount("", source, "", unix.MS_SHARED, ""))
	cases := map[string]struct {
		propagation Propagation
		arrives     bool
	}{
		"private":           {Private, false},
		"host to container": {HostToContainer, true},
		"both ways":         {Bidirectional, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec.Mounts[0].Propagation = c.propagation
			b := w.start(spec)
			b.says("waiting")
			below := filepath.Join(source, "late")
			w.must(os.MkdirAll(below, 0o755))
			w.must(unix.Mount("tmpfs", below, "tmpfs", 0, ""))
			defer unix.Unmount(below, 0)
			out, _, _ := b.exec(Process{Args: []string{"/bin/program", "facts"}})
			if got := has(parse(t, out).Mounts, "/m/late"); got != c.arrives {
				t.Errorf("the mount arrived: %v, want %v", got, c.arrives)
			}
		})
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	w := newWorld(t)
	cases := map[string]struct {
		change func(*Spec)
		want   string
	}{
		"no such program": {func(s *Spec) { s.Process.Args = []string{"nothing"} },
			`exec: "nothing": executable file not found in $PATH`},
		"no such path": {func(s *Spec) { s.Process.Args = []string{"/no/program"} },
			"executing /no/program: no such file"},
		"no command": {func(s *Spec) { s.Process.Args = nil }, "there is no command"},
		"no such user": {func(s *Spec) { s.Process.User.Name = "nobody-here" },
			`the image has no user "nobody-here"`},
		"no such group": {func(s *Spec) { s.Process.User.Name = "web:nothing" },
			`the image has no group "nothing"`},
		"no such source": {func(s *Spec) { s.Mounts = []Mount{{Source: "/no/such", Target: "/x"}} },
			"there is no /no/such on the host"},
		"no such layer": {func(s *Spec) { s.Layers = []string{"/no/such"} }, "open /no/such"},
		"an unknown limit": {func(s *Spec) { s.Process.Rlimits = []Rlimit{{"RLIMIT_X", 1, 1}} },
			"there is no limit RLIMIT_X"},
		"an unknown sysctl": {func(s *Spec) { s.Sysctls = map[string]string{"net.no.such": "1"} },
			"setting sysctl net.no.such"},
		"an unknown namespace": {func(s *Spec) { s.Namespaces.Net = "/no/such" }, "joining a namespace"},
		"a file as directory":  {func(s *Spec) { s.Process.Dir = "/replaced/x" }, "making the working directory"},
		"an impossible user":   {func(s *Spec) { id := int64(-1); s.Process.User.UID = &id }, "-1 is not a user or group"},
		"a damaged filter":     {func(s *Spec) { s.Process.Seccomp = []byte{1} }, "the seccomp filter is truncated"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := w.spec("say=hello")
			c.change(spec)
			b := w.try(spec)
			if !strings.Contains(b.report.Error, c.want) {
				t.Errorf("the report is %+v, want %q", b.report, c.want)
			}
			if code := <-b.ended; code == 0 {
				t.Error("a failed start has exit code 0")
			}
			if _, ok, _ := ReadRunning(b.dir); ok {
				t.Error("a container that did not start is recorded as running")
			}
		})
	}
}

func TestSysctls(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("cat=/proc/sys/net/ipv4/ip_unprivileged_port_start", "cat=/proc/sys/kernel/msgmax")
	spec.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0", "kernel.msgmax": "1234"}
	spec.ReadOnly = []string{"/proc/sys"}
	if out := w.run(spec); out != "0\n1234\n" {
		t.Errorf("got %q", out)
	}
}

func TestAPrivilegedContainer(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("facts", "call=mount", "mq")
	spec.AllDevices, spec.WritableSys = true, true
	spec.Process.NoNewPrivileges = false
	spec.Process.Capabilities.Bounding = AllCapabilities()
	out := w.run(spec)
	line, rest, _ := strings.Cut(out, "\n")
	if f := parse(t, line); f.Status["NoNewPrivs"] != "0" || strings.Trim(f.Status["CapEff"], "0") == "4e1" {
		t.Errorf("rights: %v", f.Status)
	}
	if rest != "call mount ENOENT\nmq ok\n" { // the image has no /tmp
		t.Errorf("got %q", rest)
	}
	if devices, err := hostDevices(); err != nil || len(devices) < len(nodes) {
		t.Errorf("devices of the host: %v, %v", devices, err)
	}
}

func TestNamespacesAreShared(t *testing.T) {
	w := newWorld(t)
	pause := w.start(&Spec{Pause: true})
	dir := fmt.Sprintf("/proc/%d/ns/", pause.report.PID)
	spec := w.spec("orphan", "facts", "wait")
	spec.Namespaces = Namespaces{PID: dir + "pid", Net: Host, IPC: Host, UTS: Host}
	b := w.start(spec)
	b.says("waiting")
	line, _, _ := strings.Cut(strings.TrimPrefix(b.output(), "waiting\n"), "\n")
	f := parse(t, line)
	for _, ns := range []string{"net", "ipc", "uts"} {
		if own, _ := os.Readlink("/proc/self/ns/" + ns); own != f.Namespaces[ns] {
			t.Errorf("%s namespace %s is not the host's", ns, f.Namespaces[ns])
		}
	}
	if theirs, _ := os.Readlink(dir + "pid"); theirs != f.Namespaces["pid"] || f.PID == 1 {
		t.Errorf("PID namespace %s of process %d, want %s", f.Namespaces["pid"], f.PID, theirs)
	}
	// The orphan is now a child of the pause process, and must end with its container.
	unix.Kill(b.report.PID, unix.SIGKILL)
	if code := b.wait(); code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	w.waitFor("the orphan to end", func() bool { return processesIn(f.Namespaces["pid"]) == 1 },
		func() string { return "it runs" })
	unix.Kill(pause.report.PID, unix.SIGKILL)
	pause.wait()
}

// processesIn counts the processes in a PID namespace, except zombies.
func processesIn(namespace string) int {
	n := 0
	found, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, path := range found {
		if ns, err := os.Readlink(path); err == nil && ns == namespace {
			n++
		}
	}
	return n
}
