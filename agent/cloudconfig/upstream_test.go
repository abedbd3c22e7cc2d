package cloudconfig_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
)

func ptr[T any](v T) *T { return &v }

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	if err != nil || z.Close() != nil {
		t.Fatal("packing failed")
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// everything sets all fields that the kubeadm bootstrap provider can put into cloud-config.
func everything(t *testing.T) cloudinit.BaseUserData {
	return cloudinit.BaseUserData{
		BootCommands:        []string{"echo boot > /run/boot"},
		PreKubeadmCommands:  []string{`echo "pre" '{{ ds.meta_data.zone }}'`, "two\nlines"},
		PostKubeadmCommands: []string{"echo post"},
		AdditionalFiles: []bootstrapv1.File{
			{Path: "/etc/plain", Content: "a\n  b: c\n\nd", Owner: "root:root", Permissions: "0640"},
			{Path: "/etc/coded", Content: base64.StdEncoding.EncodeToString([]byte("coded")), Encoding: bootstrapv1.Base64},
			{Path: "/etc/packed", Content: packed(t, "packed"), Encoding: bootstrapv1.GzipBase64, Append: ptr(true)},
			{Path: "/etc/empty"},
		},
		Users: []bootstrapv1.User{
			{
				Name: "bob", Gecos: "Bob B", Groups: "wheel, docker", HomeDir: "/home/b", Inactive: ptr(true), Shell: "/bin/sh",
				Passwd:       "$6$salt$hash",
				PrimaryGroup: "staff", LockPassword: ptr(false), Sudo: "ALL=(ALL) NOPASSWD:ALL",
				SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA bob@x", "ssh-rsa BBBB"},
			},
			{Name: "eve"},
		},
		NTP: &bootstrapv1.NTP{Servers: []string{"10.0.0.1", "ntp.example"}, Enabled: ptr(true)},
		DiskSetup: &bootstrapv1.DiskSetup{
			Partitions: []bootstrapv1.Partition{
				{Device: "/dev/sdb", Layout: ptr(true), Overwrite: ptr(false), TableType: "gpt"},
				{Device: "/dev/sdc", DiskLayout: []bootstrapv1.PartitionSpec{{Percentage: 30},
					{Percentage: 70, PartitionType: "LinuxSwap"}}},
				{Device: "/dev/sdd"},
			},
			Filesystems: []bootstrapv1.Filesystem{
				{Device: "/dev/sdb", Filesystem: "ext4", Label: "etcd_disk", Partition: "auto|any",
					ExtraOpts: []string{"-F", "-E"}},
				{Device: "/dev/sdc", Filesystem: "xfs", Partition: "1", Overwrite: ptr(true), ReplaceFS: "ntfs"},
			},
		},
		Mounts: []bootstrapv1.MountPoints{{"LABEL=etcd_disk", "/var/lib/etcddisk"},
			{"/dev/sdc1", "/data", "xfs", "ro"}},
		KubeadmVerbosity: "--v 5",
	}
}

// Upstream's own templates write the data, so this fails if a new version writes something else.
func TestWhatUpstreamWrites(t *testing.T) {
	const node = "kind: JoinConfiguration\nnodeRegistration:\n  name: '{{ ds.meta_data.local_hostname }}'\n" +
		"  kubeletExtraArgs:\n  - name: provider-id\n    value: '{{ ds.meta_data.provider_id }}'"
	vars := cloudconfig.Variables(map[string]any{
		"local_hostname": "demo-x7", "provider_id": "capstan://default/h1/0a1b2c3d", "zone": "zone-a",
	})
	cases := map[string]struct {
		write      func(base cloudinit.BaseUserData) ([]byte, error)
		kubeadm    string
		configFile string
	}{
		"the first control plane": {
			func(base cloudinit.BaseUserData) ([]byte, error) {
				return cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
					BaseUserData: base, ClusterConfiguration: "kind: ClusterConfiguration", InitConfiguration: node,
				})
			}, "kubeadm init --config /run/kubeadm/kubeadm.yaml --v 5 && echo success > " + cloudconfig.Sentinel,
			"/run/kubeadm/kubeadm.yaml",
		},
		"a further control plane": {
			func(base cloudinit.BaseUserData) ([]byte, error) {
				return cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{BaseUserData: base, JoinConfiguration: node})
			}, "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v 5 && echo success > " + cloudconfig.Sentinel,
			"/run/kubeadm/kubeadm-join-config.yaml",
		},
		"a worker": {
			func(base cloudinit.BaseUserData) ([]byte, error) {
				return cloudinit.NewNode(&cloudinit.NodeInput{BaseUserData: base, JoinConfiguration: node})
			}, "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v 5 && echo success > " + cloudconfig.Sentinel,
			"/run/kubeadm/kubeadm-join-config.yaml",
		},
	}
	for name, c := range cases {
		t.Run(name+" with everything", func(t *testing.T) {
			data, err := c.write(everything(t))
			if err != nil {
				t.Fatal(err)
			}
			got, err := cloudconfig.Parse(data, vars)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			check(t, got, c.kubeadm, c.configFile)
		})
		t.Run(name+" with nothing extra", func(t *testing.T) {
			data, err := c.write(cloudinit.BaseUserData{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := cloudconfig.Parse(data, vars)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			if len(got.Commands) != 1 || got.NTP != nil || got.Users != nil || got.Disks != nil || got.Mounts != nil ||
				got.Filesystems != nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func check(t *testing.T, got *cloudconfig.Config, kubeadm, configFile string) {
	t.Helper()
	equal := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	files := map[string]cloudconfig.File{}
	for _, f := range got.Files {
		files[f.Path] = f
	}
	equal("plain", string(files["/etc/plain"].Content), "a\n  b: c\n\nd\n")
	equal("plain's mode", files["/etc/plain"].Mode.String(), "-rw-r-----")
	equal("plain's owner", files["/etc/plain"].Owner+files["/etc/plain"].Group, "rootroot")
	equal("coded", string(files["/etc/coded"].Content), "coded")
	unpacked, err := files["/etc/packed"].Open()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	equal("packed", string(content), "packed")
	equal("reading packed", err, nil)
	equal("append", files["/etc/packed"].Append, true)
	if _, ok := files["/run/cluster-api/placeholder"]; !ok {
		t.Error("the placeholder is missing")
	}
	if c := string(files[configFile].Content); !strings.Contains(c, "name: 'demo-x7'") ||
		!strings.Contains(c, "value: 'capstan://default/h1/0a1b2c3d'") {
		t.Errorf("kubeadm's configuration: %q", c)
	}
	var commands []string
	for _, c := range append(got.BootCommands, got.Commands...) {
		commands = append(commands, c.Script)
	}
	want := []string{"echo boot > /run/boot", `echo "pre" 'zone-a'`, "two\nlines", kubeadm, "echo post"}
	equal("commands", strings.Join(commands, "|"), strings.Join(want, "|"))

	bob := got.Users[0]
	equal("groups", strings.Join(bob.Groups, "|"), "wheel|docker")
	equal("inactive", bob.Inactive, "0")
	equal("lock", bob.LockPassword, false)
	equal("keys", strings.Join(bob.SSHKeys, "|"), "ssh-ed25519 AAAA bob@x|ssh-rsa BBBB")
	equal("sudo", strings.Join(bob.Sudo, "|"), "ALL=(ALL) NOPASSWD:ALL")
	equal("eve's lock", got.Users[1].LockPassword, true)
	equal("ntp", strings.Join(got.NTP.Servers, "|"), "10.0.0.1|ntp.example")

	equal("disks", len(got.Disks), 3)
	equal("table", got.Disks[0].Table, "gpt")
	equal("swap's type", got.Disks[1].Parts[1].Type, "82")
	equal("a disk without a layout", len(got.Disks[2].Parts), 1)
	equal("options", strings.Join(got.Filesystems[0].Options, "|"), "-F|-E")
	equal("label", got.Filesystems[1].Label, "")
	equal("partition", got.Filesystems[1].Partition, "1")
	equal("mounts", len(got.Mounts), 2)
	equal("mount options", got.Mounts[1].Options, "ro")
}
