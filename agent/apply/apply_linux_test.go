package apply

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/undo"
)

// newHost returns a host whose journal and log are in a temporary directory.
func newHost(t *testing.T) *Host {
	t.Helper()
	base := t.TempDir()
	j, err := journal.Open(base, "capstan://default/h1/0a1b2c3d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	log, err := command.OpenLog(filepath.Join(base, "log"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.Close()
		if t.Failed() {
			data, _ := os.ReadFile(log.Path())
			t.Logf("log:\n%s", data)
		}
	})
	return &Host{Log: log, Notes: j, Undo: &undo.Keeper{Dir: filepath.Join(j.Dir(), "originals"), Notes: j}}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFilesAreTheSameAfterARepetition(t *testing.T) {
	testhost.Run(t, filesAreTheSame)
}

func filesAreTheSame(t *testing.T) {
	h, dir := newHost(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{"old": "before", "log": "first\n"} {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "old", "dangling": "a/target"} {
		if err := os.Symlink(to, path(name)); err != nil {
			t.Fatal(err)
		}
	}
	files := []cloudconfig.File{
		{Path: path("a/b/new"), Content: []byte("new"), Mode: 0o640},
		{Path: path("link"), Content: []byte("through"), Mode: 0o600},
		{Path: path("dangling"), Content: []byte("made"), Mode: 0o600},
		{Path: path("log"), Content: []byte("second\n"), Mode: 0o600, Append: true},
		{Path: path("log"), Content: []byte("third\n"), Mode: 0o600, Append: true},
		{Path: path("fresh"), Content: []byte("one"), Mode: 0o755, Append: true},
	}
	for range 3 {
		if err := h.Files("write_files", files); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"a/b/new": "new", "old": "through", "a/target": "made", "log": "first\nsecond\nthird\n", "fresh": "one",
		} {
			if got := read(t, path(name)); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
	if info, err := os.Stat(path("a/b/new")); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if link, err := os.Readlink(path("link")); err != nil || link != "old" {
		t.Errorf("the link was replaced: %q, %v", link, err)
	}
	if err := h.Undo.Restore(); err != nil {
		t.Fatal(err)
	}
	if read(t, path("old")) != "before" || read(t, path("log")) != "first\n" {
		t.Error("the original files were not restored")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 4 {
		t.Errorf("files after the restoration: %v, want the 4 original ones", entries)
	}
}

func TestFilesRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		file cloudconfig.File
		want string
	}{
		"an owner that doesn't exist": {cloudconfig.File{Path: filepath.Join(dir, "x"), Owner: "hunter2"},
			"file 1 of 1: its owner doesn't exist"},
		"a group that doesn't exist": {cloudconfig.File{Path: filepath.Join(dir, "x"), Group: "hunter2"},
			"its group doesn't exist"},
		"a directory at the path":        {cloudconfig.File{Path: dir}, "not a file"},
		"a link to itself":               {cloudconfig.File{Path: filepath.Join(dir, "loop")}, "loop of symbolic links"},
		"a file in place of a directory": {cloudconfig.File{Path: "/dev/null/x"}, "directory can't be created"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := newHost(t).Files("write_files", []cloudconfig.File{c.file})
			if shown := fault.Text(err, ""); !strings.Contains(shown, c.want) || strings.Contains(shown, "hunter2") {
				t.Errorf("shown %q (%v), want %q", shown, err, c.want)
			}
		})
	}
}

func TestUsers(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newHost(t)
		h.Local = true // there may be only one id
		users := []cloudconfig.User{{
			Name: "bob", Gecos: "Bob B", Groups: []string{"wheel"}, HomeDir: "/home/b/bob", Shell: "/bin/sh",
			HashedPassword: "$6$salt$hash", PrimaryGroup: "staff",
			Sudo: []string{"ALL=(ALL) NOPASSWD:ALL"}, SSHKeys: []string{"ssh-ed25519 AAAA bob@x"}, Inactive: "3",
		}, {Name: "eve.x", LockPassword: true, Sudo: []string{"ALL=(ALL) ALL"}}}
		for range 2 {
			if err := h.Users(t.Context(), users); err != nil {
				t.Fatal(err)
			}
		}
		passwd, shadow, group := read(t, "/etc/passwd"), read(t, "/etc/shadow"), read(t, "/etc/group")
		for what, ok := range map[string]bool{
			"bob's entry":     strings.Contains(passwd, "\nbob:x:") && strings.Contains(passwd, ":Bob B:/home/b/bob:/bin/sh\n"),
			"bob's password":  strings.Contains(shadow, "\nbob:$6$salt$hash:"),
			"bob's inactive":  strings.Contains(shadow, ":3:"),
			"bob's group":     strings.Contains(group, "\nwheel:x:") && strings.Contains(group, ":bob\n"),
			"bob's SSH keys":  read(t, "/home/b/bob/.ssh/authorized_keys") == "ssh-ed25519 AAAA bob@x\n",
			"bob's sudo":      read(t, "/etc/sudoers.d/90-capstan-bob") == "bob ALL=(ALL) NOPASSWD:ALL\n",
			"eve's lock":      strings.Contains(shadow, "\neve.x:!"),
			"eve's sudo":      read(t, "/etc/sudoers.d/90-capstan-eve_x") == "eve.x ALL=(ALL) ALL\n",
			"users are noted": slices.Equal(h.Notes.Notes(KeyUser), []string{"bob", "eve.x"}),
		} {
			if !ok {
				t.Errorf("%s is not as it should be\n%s\n%s\n%s", what, passwd, shadow, group)
			}
		}
		if !slices.Contains(h.Notes.Notes(KeyGroup), "staff") || !slices.Contains(h.Notes.Notes(KeyGroup), "wheel") {
			t.Errorf("noted groups: %v", h.Notes.Notes(KeyGroup))
		}
	})
}

func TestMounts(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newHost(t)
		mounts := []cloudconfig.Mount{
			{Source: "data", Point: "/var/lib/data dir", Type: "tmpfs", Options: "size=1m", Dump: "0", Pass: "0"},
		}
		for range 2 {
			if err := h.Mounts(t.Context(), mounts); err != nil {
				t.Fatal(err)
			}
		}
		want := "# of the host\ndata\t/var/lib/data\\040dir\ttmpfs\tsize=1m,x-capstan\t0\t0\n"
		if got := read(t, "/etc/fstab"); got != want {
			t.Errorf("fstab: %q", got)
		}
		if !mounted("/var/lib/data dir") || RemoveMounts(want) != "# of the host\n" {
			t.Error("it is not mounted, or RemoveMounts did not remove its line from fstab")
		}
		missing := []cloudconfig.Mount{
			{Source: "/dev/nothing-here", Point: "/mnt", Type: "ext4", Options: "defaults,nofail", Dump: "0", Pass: "2"},
		}
		if err := h.Mounts(t.Context(), missing); err == nil || !strings.HasPrefix(fault.Text(err, ""), "mount 1 of 1") {
			t.Errorf("got %v", err)
		}
	})
}

// The kernel lists a mount under its path without links. Cleaning must find it under that path.
func TestAMountThroughALinkIsNoted(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newHost(t)
		if err := os.MkdirAll("/srv/etcd", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/srv", "/var/lib/link"); err != nil {
			t.Fatal(err)
		}
		mounts := []cloudconfig.Mount{
			{Source: "data", Point: "/var/lib/link/etcd", Type: "tmpfs", Options: "size=1m", Dump: "0", Pass: "0"},
		}
		for range 2 {
			if err := h.Mounts(t.Context(), mounts); err != nil {
				t.Fatal(err)
			}
		}
		if !mounted("/srv/etcd") || !slices.Equal(h.Notes.Notes(KeyMount), []string{"/var/lib/link/etcd", "/srv/etcd"}) {
			t.Errorf("noted %q", h.Notes.Notes(KeyMount))
		}
	})
}

func TestALocalHostHasNoDisks(t *testing.T) {
	h := newHost(t)
	h.Local = true
	for _, err := range []error{h.Disks(t.Context(), []cloudconfig.Disk{{}}),
		h.Filesystems(t.Context(), []cloudconfig.Filesystem{{}})} {
		if !strings.Contains(fault.Text(err, ""), "a local host has no disks") {
			t.Errorf("got %v", err)
		}
	}
}

func TestPartitions(t *testing.T) {
	const size = 10 << 30
	cases := map[string]struct {
		disk cloudconfig.Disk
		want string
	}{
		"one partition": {cloudconfig.Disk{Table: "mbr", Parts: []cloudconfig.Part{{Percent: 100}}},
			"label: dos\nlabel-id: 0x0a1b2c3d\ntype=83\n"},
		"the last partition takes the rest": {
			cloudconfig.Disk{Table: "mbr", Parts: []cloudconfig.Part{{Percent: 30, Type: "82"}, {Percent: 70}}},
			"label: dos\nlabel-id: 0x0a1b2c3d\nsize=3072MiB, type=82\ntype=83\n",
		},
		"a part of the disk stays free": {
			cloudconfig.Disk{Table: "gpt", Parts: []cloudconfig.Part{{Percent: 50, Type: "82"}}},
			"label: gpt\nlabel-id: 0a1b2c3d-0000-4000-8000-000000000000\n" +
				"size=5120MiB, type=0657FD6D-A4AB-43C4-84E5-0933C84B4F4F\n",
		},
		"a type by its GUID": {
			cloudconfig.Disk{
				Table: "gpt", Parts: []cloudconfig.Part{{Percent: 100, Type: "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"}},
			},
			"label: gpt\nlabel-id: 0a1b2c3d-0000-4000-8000-000000000000\ntype=C12A7328-F81F-11D2-BA4B-00A0C93EC93B\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			id := "0a1b2c3d-0000-4000-8000-000000000000"
			if c.disk.Table == "mbr" {
				id = "0a1b2c3d"
			}
			if got := partitions(c.disk, size, id); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecideWhetherAFilesystemIsMade(t *testing.T) {
	want := cloudconfig.Filesystem{Type: "ext4", Label: "etcd"}
	with := func(change func(*cloudconfig.Filesystem)) cloudconfig.Filesystem {
		f := want
		change(&f)
		return f
	}
	cases := map[string]struct {
		f      cloudconfig.Filesystem
		found  content
		make   bool
		refuse bool
	}{
		"an empty device":                         {want, content{}, true, false},
		"the wanted file system is there already": {want, content{kind: "ext4", label: "etcd"}, false, false},
		"the file system has another label":       {want, content{kind: "ext4", label: "other"}, false, true},
		"a file system for which any label will do": {with(func(f *cloudconfig.Filesystem) { f.Label = "" }),
			content{kind: "ext4", label: "other"}, false, false},
		"another file system": {want, content{kind: "xfs"}, false, true},
		"another file system that may be replaced": {with(func(f *cloudconfig.Filesystem) { f.Replace = "xfs" }),
			content{kind: "xfs"}, true, false},
		"another file system that is overwritten": {with(func(f *cloudconfig.Filesystem) { f.Overwrite = true }),
			content{kind: "xfs"}, true, false},
		"a partition table and no file system": {want, content{table: "gpt"}, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := decide(c.f, c.found)
			if got != c.make || (err != nil) != c.refuse {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}

// The file system is made on an image file, which the programs take for a device.
func TestAFilesystemIsMadeOnce(t *testing.T) {
	testhost.Needs(t, "mkfs.ext4", "blkid")
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	fs := []cloudconfig.Filesystem{{Device: image, Type: "ext4", Label: "etcd", Options: []string{"-m", "0"}}}
	var uuid string
	for range 2 {
		if err := h.Filesystems(t.Context(), fs); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("/usr/sbin/blkid", "-p", "-s", "UUID", "-o", "value", image).Output()
		if err != nil || uuid != "" && uuid != string(out) {
			t.Fatalf("the UUID was %q and is %q, so the file system was made again: %v", uuid, out, err)
		}
		uuid = string(out)
	}
	found, err := probe(t.Context(), image)
	if err != nil || found != (content{kind: "ext4", label: "etcd", id: strings.TrimSpace(uuid)}) {
		t.Errorf("found %+v, %v", found, err)
	}
	if !slices.Equal(h.Notes.Notes(KeyFilesystem), []string{image}) {
		t.Errorf("noted %v", h.Notes.Notes(KeyFilesystem))
	}
	fs[0].Type = "xfs"
	if err := h.Filesystems(t.Context(), fs); !strings.Contains(fault.Text(err, ""), "the device has other contents") {
		t.Errorf("got %v", err)
	}
}

func TestMkfs(t *testing.T) {
	cases := map[string]struct {
		f    cloudconfig.Filesystem
		want string
	}{
		"ext4": {cloudconfig.Filesystem{Type: "ext4", Label: "a", Options: []string{"-m", "0"}},
			"mkfs.ext4 -F -L a -m 0 /dev/x"},
		"xfs, no label": {cloudconfig.Filesystem{Type: "xfs"}, "mkfs.xfs -f /dev/x"},
		"vfat":          {cloudconfig.Filesystem{Type: "vfat", Label: "a"}, "mkfs.vfat -n a /dev/x"},
		"swap":          {cloudconfig.Filesystem{Type: "swap", Label: "a"}, "mkswap -L a /dev/x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(mkfs(c.f, "/dev/x"), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPartitionNames(t *testing.T) {
	for disk, want := range map[string]string{
		"/dev/sdz": "/dev/sdz2", "/dev/nvme9n1": "/dev/nvme9n1p2", "/dev/mmcblk9": "/dev/mmcblk9p2",
	} {
		if got := partition(disk, 2); got != want {
			t.Errorf("%s: got %s, want %s", disk, got, want)
		}
	}
}

func TestTimeServers(t *testing.T) {
	ntp := &cloudconfig.NTP{Enabled: true, Servers: []string{"a", "b"}, Pools: []string{"p"}}
	if got := chrony(ntp); got != "server a iburst\nserver b iburst\npool p iburst\n" {
		t.Errorf("chrony: %q", got)
	}
	if got := timesyncd(ntp); got != "[Time]\nNTP=a b p\n" {
		t.Errorf("timesyncd: %q", got)
	}
	testhost.Run(t, func(t *testing.T) {
		if err := os.MkdirAll("/etc/chrony/conf.d", 0o755); err != nil {
			t.Fatal(err)
		}
		testhost.Executable(t, "/usr/local/bin/systemctl", "echo \"$@\" >> /run/calls; [ \"$2\" = chronyd ]\n")
		if err := newHost(t).NTP(t.Context(), ntp); err != nil {
			t.Fatal(err)
		}
		if got := read(t, "/run/calls"); got != "restart chrony\nrestart chronyd\n" {
			t.Errorf("calls %q", got)
		}
		if got := read(t, "/etc/chrony/conf.d/capstan.conf"); got != chrony(ntp) {
			t.Errorf("wrote %q", got)
		}
	})
}

func TestKeysAreAddedOnce(t *testing.T) {
	cases := map[string]struct {
		text  string
		lines []string
		want  string
	}{
		"an empty file":                         {"", []string{"k1", "k2"}, "k1\nk2\n"},
		"one of the keys is there":              {"k1\n", []string{"k1", "k2"}, "k1\nk2\n"},
		"no line break at the end":              {"k0", []string{"k1"}, "k0\nk1\n"},
		"the same key twice, and an empty line": {"", []string{"k1", " k1 ", ""}, "k1\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := addLines(c.text, c.lines); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
