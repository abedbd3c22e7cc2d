package kubelet

import (
	"runtime"
	"testing"
	"time"

	cadvisorv2 "github.com/google/cadvisor/info/v2"
)

func TestMachineIsThisOne(t *testing.T) {
	m := &machine{root: t.TempDir(), started: time.Now()}
	info, err := m.MachineInfo()
	if err != nil {
		t.Fatal(err)
	}
	if info.NumCores != runtime.NumCPU() || info.MemoryCapacity < 64<<20 || info.BootID == "" {
		t.Errorf("machine is %+v", info)
	}
	version, err := m.VersionInfo()
	if err != nil || version.KernelVersion == "" || version.ContainerOsVersion == "" {
		t.Errorf("versions are %+v, %v", version, err)
	}
	fs, err := m.RootFsInfo()
	if err != nil || fs.Capacity == 0 || fs.Available > fs.Capacity {
		t.Errorf("filesystem is %+v, %v", fs, err)
	}
	containers, err := m.ContainerInfoV2("/", cadvisorv2.RequestOptions{})
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers are %v, %v; want the root alone", containers, err)
	}
	stats := containers["/"].Stats[0]
	if stats.Memory.WorkingSet == 0 || stats.Memory.WorkingSet > info.MemoryCapacity || stats.Cpu.Usage.Total == 0 {
		t.Errorf("the host uses %+v, %+v", stats.Memory, stats.Cpu)
	}
	capacity := newContainers(m).GetCapacity(true)
	if got := capacity.StorageEphemeral().Value(); uint64(got) != fs.Capacity {
		t.Errorf("ephemeral storage is %d, want %d", got, fs.Capacity)
	}
}

func TestParse(t *testing.T) {
	memory := parseMemoryInfo("MemTotal:       2048 kB\nMemAvailable:   1024 kB\nHugePages_Total:       0\n\n")
	if memory["MemTotal"] != 2<<20 || memory["MemAvailable"] != 1<<20 || len(memory) != 2 {
		t.Errorf("memory is %v", memory)
	}
	if got := dashed("0123456789abcdef0123456789abcdef"); got != "01234567-89ab-cdef-0123-456789abcdef" {
		t.Errorf("UUID is %s", got)
	}
}
