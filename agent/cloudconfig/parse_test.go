package cloudconfig

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/fault"
)

const header = "#cloud-config\n"

func TestParse(t *testing.T) {
	cases := map[string]struct {
		data string
		want Config
	}{
		"an empty document":  {"", Config{}},
		"sections with null": {"users:\nntp:\nwrite_files: null\n", Config{}},
		"commands as text and as list": {
			"bootcmd:\n- echo a\nruncmd:\n- echo \"b\"\n- [echo, \"it's\", 3]\n- |\n  for i in 1; do\n    x\n  done\n-\n",
			Config{
				BootCommands: []Command{{"echo a"}}, Commands: []Command{{"echo \"b\""}, {`'echo' 'it'\''s' '3'`},
					{"for i in 1; do\n  x\ndone\n"}},
			},
		},
		"a file with defaults": {
			"write_files:\n- path: /a\n  content: hello\n",
			Config{Files: []File{{Path: "/a", Content: []byte("hello"), Mode: 0o644}}},
		},
		"a file with all keys": {
			"write_files:\n- {path: /a/../b, content: aGk=, encoding: b64, owner: 'bob:staff', permissions: '0600', append: " +
				"true, defer: yes}\n",
			Config{
				Files: []File{
					{Path: "/b", Content: []byte("hi"), Owner: "bob", Group: "staff", Mode: 0o600, Append: true, Defer: true},
				},
			},
		},
		"permissions without quotes and with special bits": {
			"write_files:\n- {path: /a, permissions: 0640}\n- {path: /b, permissions: 0o4755}\n" +
				"- {path: /c, permissions: '1777'}\n",
			Config{Files: []File{
				{Path: "/a", Content: []byte{}, Mode: 0o640},
				{Path: "/b", Content: []byte{}, Mode: 0o755 | fs.ModeSetuid},
				{Path: "/c", Content: []byte{}, Mode: 0o777 | fs.ModeSticky},
			}},
		},
		"a user with defaults": {
			"users:\n- name: bob\n",
			Config{Users: []User{{Name: "bob", LockPassword: true}}},
		},
		"a user with all keys": {
			"users:\n- {name: bob, gecos: Bob B, groups: 'a, b', homedir: /h, inactive: true, shell: /bin/sh, lock_passwd: " +
				"false, passwd: $6$x$y, primary_group: p, sudo: 'ALL=(ALL) ALL', ssh_authorized_keys: [k1, k2]}\n",
			Config{Users: []User{{
				Name: "bob", Gecos: "Bob B", Groups: []string{"a", "b"}, HomeDir: "/h", Inactive: "0", Shell: "/bin/sh",
				HashedPassword: "$6$x$y",
				PrimaryGroup:   "p", Sudo: []string{"ALL=(ALL) ALL"}, SSHKeys: []string{"k1", "k2"},
			}}},
		},
		"ntp": {
			"ntp:\n  enabled: true\n  servers:\n    - 10.0.0.1\n    - ntp.example\n",
			Config{NTP: &NTP{Enabled: true, Servers: []string{"10.0.0.1", "ntp.example"}}},
		},
		"ntp switched off": {"ntp: {enabled: false}", Config{NTP: &NTP{}}},
		"disks": {
			"disk_setup:\n  /dev/sdb: {table_type: gpt, layout: true, overwrite: true}\n  sdc: {layout: [60, [40, 82]]}\n" +
				"  /dev/sdd: {layout: false}\n  /dev/sde:\n    layout: <nil>\n",
			Config{Disks: []Disk{
				{Device: "/dev/sdb", Table: "gpt", Parts: []Part{{Percent: 100}}, Overwrite: true},
				{Device: "/dev/sdc", Table: "mbr", Parts: []Part{{Percent: 60}, {Percent: 40, Type: "82"}}},
				{Device: "/dev/sdd", Table: "mbr"},
				{Device: "/dev/sde", Table: "mbr", Parts: []Part{{Percent: 100}}},
			}},
		},
		"file systems": {
			"fs_setup:\n- {label: etcd, filesystem: ext4, device: /dev/sdb, partition: auto|any, overwrite: false, " +
				"extra_opts: [-F, -E, lazy=1]}\n- {label: None, filesystem: xfs, device: sdc, partition: 2, replace_fs: ntfs}\n",
			Config{Filesystems: []Filesystem{
				{Device: "/dev/sdb", Type: "ext4", Label: "etcd", Partition: "auto", Options: []string{"-F", "-E", "lazy=1"}},
				{Device: "/dev/sdc", Type: "xfs", Partition: "2", Replace: "ntfs"},
			}},
		},
		"mounts": {
			"mounts:\n- [LABEL=etcd, /var/lib//etcd/]\n- [sdb1, none, swap, sw, '0', '0']\n- - tmpfs\n  - /t\n  - tmpfs\n",
			Config{Mounts: []Mount{
				{"LABEL=etcd", "/var/lib/etcd", "auto", "defaults,nofail", "0", "2"},
				{"/dev/sdb1", "none", "swap", "sw", "0", "0"},
				{"tmpfs", "/t", "tmpfs", "defaults,nofail", "0", "2"},
			}},
		},
		"anchors": {
			"runcmd:\n- &a echo\n- *a\n",
			Config{Commands: []Command{{"echo"}, {"echo"}}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(header+c.data), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got  %+v\nwant %+v", *got, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ data, want string }{
		"Ignition data":  {"{\"ignition\": {}}", "must start with #cloud-config"},
		"a shell script": {"#!/bin/sh\n", "must start with #cloud-config"},
		"user data that is compressed as a whole": {"\x1f\x8b\x08hunter2", "must start with #cloud-config"},
		"user data of several parts": {"Content-Type: multipart/mixed; a=hunter2\n",
			"must start with #cloud-config"},
		"another kind of template":           {"## template: basic\n#cloud-config\n", "only jinja"},
		"a template without the second line": {"## template: jinja\nruncmd: []\n", "must start with #cloud-config"},
		"broken YAML":                        {header + "runcmd:\n- 'hunter2\n", "not valid YAML"},
		"a list as the document":             {header + "- a\n", "must be a mapping"},
		"an unknown section": {header + "packages: [hunter2]\n",
			"line 2 of the bootstrap data: the bootstrap data has a key that is not supported"},
		"an unknown key": {header + "write_files:\n- {path: /a, hunter2: b}\n", "line 3"},
		"a key that occurs twice": {
			header + "write_files:\n- {path: /a, append: true, append: false}\n", "append",
		},
		"no path":         {header + "write_files:\n- {content: hunter2}\n", "absolute path"},
		"a relative path": {header + "write_files:\n- {path: hunter2}\n", "absolute path"},
		"an unknown encoding": {header + "write_files:\n- {path: /a, content: hunter2, encoding: hunter2}\n",
			"encoding is unknown"},
		"bad base64": {header + "write_files:\n- {path: /a, content: hunter2!, encoding: base64}\n",
			"not valid base64"},
		"bad gzip": {header + "write_files:\n- {path: /a, content: hunter2, encoding: gzip}\n",
			"not valid gzip"},
		"bad permissions":                {header + "write_files:\n- {path: /a, permissions: rwx}\n", "octal"},
		"permissions that are too large": {header + "write_files:\n- {path: /a, permissions: '17777'}\n", "octal"},
		"a command that is a mapping":    {header + "runcmd:\n- {a: b}\n", "must be a text"},
		"runcmd that is a text":          {header + "runcmd: hunter2\n", "must be a list"},
		"a user without a name":          {header + "users:\n- {gecos: hunter2}\n", "valid name"},
		"a user name that is an option":  {header + "users:\n- {name: --root}\n", "valid name"},
		"a password that adds a line": {header + "users:\n- {name: bob, passwd: \"x\\nroot:hunter2\"}\n",
			"line break"},
		"a sudo rule that adds a line": {header + "users:\n- {name: bob, sudo: \"x\\nevil ALL=(ALL) ALL\"}\n",
			"more than one line"},
		"partitions beyond the disk": {header + "disk_setup:\n  /dev/sdb: {layout: [60, 60]}\n", "more than 100"},
		"a partition type that is a command": {header + "disk_setup:\n  /dev/sdb: {layout: [[60, '83, size=1']]}\n",
			"hexadecimal"},
		"a file system that is a path": {header + "fs_setup:\n- {device: /dev/sdb, filesystem: ../x}\n",
			"needs a device"},
		"a mount without a point":               {header + "mounts:\n- [sdb]\n", "mount point"},
		"a mount that adds a line to fstab":     {header + "mounts:\n- [sdb, \"/a\\n/dev/sda / ext4\"]\n", "one line"},
		"a time server followed by an option":   {header + "ntp:\n  servers: ['a b']\n", "time server"},
		"an alias that contains itself":         {header + "runcmd: &a\n- *a\n", ""},
		"an unknown variable outside of quotes": {"## template: jinja\n#cloud-config\nruncmd:\n- {{ nothing }}\n", "line 4"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.data), nil)
			if err == nil {
				t.Fatalf("got %+v", got)
			}
			shown := fault.Text(err, "")
			if shown == "" || !strings.Contains(shown, c.want) || strings.Contains(shown, "hunter2") {
				t.Errorf("shown %q, want %q", shown, c.want)
			}
		})
	}
}

// A gzip file may have several consecutive members, which together are the content. Line breaks that YAML leaves at the
// end are not a member.
func TestEachMemberIsUnpacked(t *testing.T) {
	for name, end := range map[string]string{"nothing after it": "", "line breaks after it": "\r\n\n"} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			for _, text := range []string{"one\n", "two\n"} {
				z := gzip.NewWriter(&b)
				if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
					t.Fatal("packing failed")
				}
			}
			b.WriteString(end)
			content, err := File{Content: b.Bytes(), Packed: true}.Open()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(content); err != nil || string(got) != "one\ntwo\n" {
				t.Errorf("the content is %q, %v", got, err)
			}
		})
	}
}

func TestUnpackingIsBounded(t *testing.T) {
	zeros := exec.Command("sh", "-c", "head -c 70000000 /dev/zero | gzip -9 | base64 -w0")
	bomb, err := zeros.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse([]byte(header+"write_files:\n- {path: /a, encoding: gz+b64, content: "+string(bomb)+"}\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
}

// FuzzParse: parsing any data returns without a panic, the text of every error may be shown, and the same data always
// yields the same result.
func FuzzParse(f *testing.F) {
	f.Add("write_files:\n- {path: /a, content: aGk=, encoding: b64}\nruncmd:\n- [a, b]\n- c\n")
	f.Add("users:\n- {name: bob, sudo: x}\nntp: {servers: [a]}\nmounts:\n- [a, /b]\n")
	f.Add("disk_setup:\n  sdb: {layout: [[30, 82], 70]}\nfs_setup:\n- {device: sdb, filesystem: ext4}\n")
	f.Add("a: &a {b: *a}\n")
	f.Add("{{ ds.meta_data.zone | default('x') }}{% raw %}{{{% endraw %}{# #}")
	f.Fuzz(func(t *testing.T, body string) {
		for _, start := range []string{header, "## template: jinja\n" + header} {
			first, err := Parse([]byte(start+body), testVars)
			if err != nil && fault.Text(err, "") == "" {
				t.Fatalf("an error without a text that may be shown: %v", err)
			}
			second, again := Parse([]byte(start+body), testVars)
			if (err == nil) != (again == nil) || !reflect.DeepEqual(first, second) {
				t.Fatalf("parsing twice gives different results: %v, %v", err, again)
			}
		}
	})
}

// FuzzQuote: the shell returns exactly what was quoted.
func FuzzQuote(f *testing.F) {
	f.Add("it's")
	f.Add("$(x) `y` \\ \" \n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			t.Skip("no argument can have a zero byte")
		}
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+Quote(text)).Output()
		if err != nil || string(out) != text {
			t.Fatalf("got %q, %v; want %q", out, err, text)
		}
	})
}
