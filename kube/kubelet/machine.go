package kubelet

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	cadvisorv1 "github.com/google/cadvisor/info/v1"
	cadvisorv2 "github.com/google/cadvisor/info/v2"
	"golang.org/x/sys/unix"
)

// machine answers the kubelet's cAdvisor requests about the machine as a whole: what the machine has,
// and what is free. It does no background work: it reads the values anew for every request.
type machine struct {
	root    string // the kubelet's root directory: its filesystem is the node's
	started time.Time
}

// Start does nothing.
func (m *machine) Start() error { return nil }

// MachineInfo returns the machine's processors, memory and identity.
func (m *machine) MachineInfo() (*cadvisorv1.MachineInfo, error) {
	memory, err := memoryInfo()
	if err != nil {
		return nil, err
	}
	id := readLine("/etc/machine-id")
	return &cadvisorv1.MachineInfo{
		Timestamp:        time.Now(),
		NumCores:         runtime.NumCPU(),
		NumPhysicalCores: runtime.NumCPU(),
		NumSockets:       1,
		MemoryCapacity:   memory["MemTotal"],
		SwapCapacity:     0, // containers don't swap
		MachineID:        id,
		SystemUUID:       dashed(id), // the machine's own id would be the same on all its hosts
		BootID:           readLine("/proc/sys/kernel/random/boot_id"),
	}, nil
}

// VersionInfo returns the versions of kernel and operating system.
func (m *machine) VersionInfo() (*cadvisorv1.VersionInfo, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("asking the kernel's version: %w", err)
	}
	return &cadvisorv1.VersionInfo{
		KernelVersion:      unix.ByteSliceToString(name.Release[:]),
		ContainerOsVersion: osName(),
	}, nil
}

// ContainerInfoV2 returns all processes of the host as the root container. There are no others.
func (m *machine) ContainerInfoV2(name string,
	options cadvisorv2.RequestOptions) (map[string]cadvisorv2.ContainerInfo, error) {
	if options.Recursive || name != "/" {
		return map[string]cadvisorv2.ContainerInfo{}, nil
	}
	memory, err := memoryInfo()
	if err != nil {
		return nil, err
	}
	cpu, used, err := usage()
	if err != nil {
		return nil, err
	}
	return map[string]cadvisorv2.ContainerInfo{name: {
		Spec: cadvisorv2.ContainerSpec{
			CreationTime: m.started,
			HasCpu:       true,
			HasMemory:    true,
			Memory:       cadvisorv2.MemorySpec{Limit: memory["MemTotal"]},
		},
		Stats: []*cadvisorv2.ContainerStats{{
			Timestamp: time.Now(),
			Cpu:       &cadvisorv1.CpuStats{Usage: cadvisorv1.CpuUsage{Total: uint64(cpu)}},
			Memory:    &cadvisorv1.MemoryStats{Usage: used, WorkingSet: used, RSS: used},
		}},
	}}, nil
}

// GetRequestedContainersInfo returns nothing, because no container has a cgroup.
func (m *machine) GetRequestedContainersInfo(string,
	cadvisorv2.RequestOptions) (map[string]*cadvisorv1.ContainerInfo, error) {
	return map[string]*cadvisorv1.ContainerInfo{}, nil
}

// ImagesFsInfo returns the node's filesystem, because images take no room of their own.
func (m *machine) ImagesFsInfo(context.Context) (cadvisorv2.FsInfo, error) { return m.RootFsInfo() }

// ContainerFsInfo returns the node's filesystem.
func (m *machine) ContainerFsInfo(context.Context) (cadvisorv2.FsInfo, error) { return m.RootFsInfo() }

// RootFsInfo returns the filesystem of the kubelet's root directory.
func (m *machine) RootFsInfo() (cadvisorv2.FsInfo, error) { return m.GetDirFsInfo(m.root) }

// GetDirFsInfo returns the filesystem that holds path.
func (m *machine) GetDirFsInfo(path string) (cadvisorv2.FsInfo, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return cadvisorv2.FsInfo{}, fmt.Errorf("asking the filesystem of %s: %w", path, err)
	}
	block := uint64(st.Bsize)
	return cadvisorv2.FsInfo{
		Timestamp:  time.Now(),
		Device:     "host",
		Mountpoint: path,
		Capacity:   st.Blocks * block,
		Available:  st.Bavail * block,
		Usage:      (st.Blocks - st.Bfree) * block,
		Inodes:     &st.Files,
		InodesFree: &st.Ffree,
	}, nil
}

// memoryInfo returns /proc/meminfo in bytes.
func memoryInfo() (map[string]uint64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, fmt.Errorf("asking for the machine's memory: %w", err)
	}
	return parseMemoryInfo(string(data)), nil
}

// parseMemoryInfo parses lines like "MemTotal:  24523416 kB".
func parseMemoryInfo(data string) map[string]uint64 {
	values := map[string]uint64{}
	for line := range strings.Lines(data) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			values[strings.TrimSuffix(fields[0], ":")] = n << 10
		}
	}
	return values
}

// osName returns the name of the operating system from os-release.
func osName() string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return strings.Trim(value, `"'`)
			}
		}
	}
	return "Linux"
}

// readLine returns the first line of a file, or "" if the file can't be read.
func readLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// dashed returns a machine id of 32 hexadecimal digits as a UUID.
func dashed(id string) string {
	if len(id) != 32 {
		return id
	}
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}
