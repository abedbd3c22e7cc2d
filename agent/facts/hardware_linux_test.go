package facts

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// computer creates the files of a computer in a directory.
func computer(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestVirtualization(t *testing.T) {
	const dmi = "/sys/class/dmi/id/"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a physical computer": {map[string]string{dmi + "sys_vendor": "Dell Inc.\n",
			dmi + "product_name": "PowerEdge R640\n", "/proc/cpuinfo": "flags\t: fpu vme\n"}, "none"},
		"no information":    {nil, "none"},
		"qemu":              {map[string]string{dmi + "sys_vendor": "QEMU", dmi + "product_name": "Standard PC"}, "qemu"},
		"kvm":               {map[string]string{dmi + "sys_vendor": "Red Hat", dmi + "product_name": "KVM"}, "kvm"},
		"a cloud's machine": {map[string]string{dmi + "bios_vendor": "Amazon EC2"}, "amazon"},
		"vmware": {map[string]string{dmi + "sys_vendor": "VMware, Inc.",
			dmi + "product_name": "VMware Virtual Platform"}, "vmware"},
		"a laptop from a maker of hypervisors": {map[string]string{dmi + "sys_vendor": "Microsoft Corporation",
			dmi + "product_name": "Surface Laptop"}, "none"},
		"a virtual machine from a maker of laptops": {map[string]string{dmi + "sys_vendor": "Microsoft Corporation",
			dmi + "product_name": "Virtual Machine"}, "microsoft"},
		"a container": {map[string]string{"/run/systemd/container": "systemd-nspawn\n"},
			"systemd-nspawn"},
		"a container with an odd name": {map[string]string{"/run/systemd/container": "A B\n"}, "none"},
		"a hypervisor in the device tree": {
			map[string]string{"/proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}, "kvm",
		},
		"xen":                            {map[string]string{"/sys/hypervisor/type": "xen\n"}, "xen"},
		"a hypervisor's processor flag":  {map[string]string{"/proc/cpuinfo": "flags\t: fpu hypervisor\n"}, "vm-other"},
		"a flag that ends in hypervisor": {map[string]string{"/proc/cpuinfo": "flags\t: nohypervisor\n"}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := virtualization(computer(t, c.files)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDisks(t *testing.T) {
	files := map[string]string{}
	disk := func(name string, gib int, rotational, removable string) {
		files["/sys/block/"+name+"/device/x"] = ""
		files["/sys/block/"+name+"/size"] = strconv.Itoa(gib*2097152+5) + "\n"
		files["/sys/block/"+name+"/queue/rotational"] = rotational
		files["/sys/block/"+name+"/removable"] = removable
	}
	disk("sda", 931, "1\n", "0\n")
	disk("nvme0n1", 476, "0\n", "0\n")
	disk("sdb", 29, "1\n", "1\n")
	disk("sdc", 0, "1\n", "0\n")
	files["/sys/block/loop0/size"] = "209715200\n"
	want := []v1beta2.HostDisk{{Name: "nvme0n1", SizeGiB: 476}, {Name: "sda", SizeGiB: 931, Rotational: true}}
	if got := disks(computer(t, files)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	for i := range 10 {
		disk("vd"+string(rune('a'+i)), 100+i, "0", "0")
	}
	got := disks(computer(t, files))
	if len(got) != 8 || got[0] != want[0] || got[1] != want[1] || got[2].Name != "vde" || got[7].Name != "vdj" {
		t.Errorf("of twelve disks: %+v", got)
	}
	if got := disks(t.TempDir()); got != nil {
		t.Errorf("without disks: %+v", got)
	}
}

func TestHardware(t *testing.T) {
	root := computer(t, map[string]string{
		"/proc/cpuinfo":                   "processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) \"Gold\"\nprocessor\t: 1\n",
		"/sys/class/dmi/id/sys_vendor":    "LENOVO\n",
		"/sys/class/dmi/id/product_name":  "20XW\n",
		"/sys/class/dmi/id/product_uuid":  "4c4c4544-0000-2010-8020-80c04f202020\n",
		"/sys/class/dmi/id/board_serial":  "secret\n",
		"/sys/block/sda/device/x":         "",
		"/sys/block/sda/size":             "209715200\n",
		"/proc/device-tree/model":         "another\x00",
		"/sys/block/sda/queue/rotational": "0\n",
	})
	var owned, local v1beta2.AgentReport
	hardware(root, false, &owned)
	owned.Addresses = nil
	if want := (v1beta2.AgentReport{ProcessorModel: "Intel(R) Xeon(R) Gold", Model: "LENOVO 20XW", Virtualization: "none",
		Disks: []v1beta2.HostDisk{{Name: "sda", SizeGiB: 100}}}); !reflect.DeepEqual(
		owned,
		want,
	) {
		t.Errorf("got %+v", owned)
	}
	hardware(root, true, &local)
	local.Addresses = nil
	if want := (v1beta2.AgentReport{
		ProcessorModel: "Intel(R) Xeon(R) Gold", Virtualization: "namespace",
	}); !reflect.DeepEqual(local, want) {
		t.Errorf("a local host: got %+v", local)
	}
	if got := model(computer(t, map[string]string{"/proc/device-tree/model": "Raspberry Pi 5\x00"})); got !=
		"Raspberry Pi 5" {
		t.Errorf("a board is %q", got)
	}
}
