package clusterctl

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/clusterctl/podless"
)

// program returns the header of a program for an architecture.
func program(t *testing.T, machine elf.Machine, mode os.FileMode) string {
	t.Helper()
	var text bytes.Buffer
	head := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56,
		Shentsize: 64,
	}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA], head.Ident[elf.EI_VERSION] =
		byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	if err := binary.Write(&text, binary.LittleEndian, head); err != nil {
		t.Fatal(err)
	}
	return file(t, text.Bytes(), mode)
}

func file(t *testing.T, text []byte, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParseBinaries(t *testing.T) {
	here, ok := machines[runtime.GOARCH]
	if !ok {
		t.Skipf("this test does not know the programs of %s", runtime.GOARCH)
	}
	other := elf.EM_S390
	good := program(t, here, 0o755)
	request := Request{
		clusterctlv1.InfrastructureProviderType: {"docker", "NS/Other:v1.0.0"}, clusterctlv1.BootstrapProviderType: {"k3s"},
		clusterctlv1.ControlPlaneProviderType: {"k3s"},
		clusterctlv1.CoreProviderType:         {"cluster-api"},
	}
	for name, c := range map[string]struct {
		given []string
		want  string // the names that have a binary, or part of the message
		fails bool
	}{
		"none":                               {nil, "", false},
		"a provider's name":                  {[]string{"docker=" + good}, "docker", false},
		"a name with its type":               {[]string{"infrastructure-docker=" + good}, "infrastructure-docker", false},
		"a provider with a version":          {[]string{"Other=" + good}, "other", false},
		"the core provider":                  {[]string{"cluster-api=" + good}, "cluster-api", false},
		"a script":                           {[]string{"docker=" + file(t, []byte("#!/bin/sh\n"), 0o755)}, "docker", false},
		"one of two with the same name":      {[]string{"bootstrap-k3s=" + good}, "bootstrap-k3s", false},
		"a name that two providers have":     {[]string{"k3s=" + good}, "several providers", true},
		"a provider that isn't named":        {[]string{"aws=" + good}, "aws, which is not one of", true},
		"the same provider twice":            {[]string{"docker=" + good, "docker=" + good}, "two binaries", true},
		"no path":                            {[]string{"docker="}, "not NAME=PATH", true},
		"no name":                            {[]string{good}, "not NAME=PATH", true},
		"no such file":                       {[]string{"docker=/nowhere/at/all"}, "no such file", true},
		"a directory":                        {[]string{"docker=" + t.TempDir()}, "not executable", true},
		"a file that can't be executed":      {[]string{"docker=" + program(t, here, 0o644)}, "not executable", true},
		"a program for another architecture": {[]string{"docker=" + program(t, other, 0o755)}, "another architecture", true},
		"a text file": {[]string{"docker=" + file(t, []byte("hello"), 0o755)},
			"not a program for Linux", true},
		"all mistakes": {[]string{"aws=" + good, "docker=/nowhere/at/all"},
			"not one of the named providers\nlooking", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseBinaries(c.given, request)
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for name, path := range got {
				names = append(names, name)
				if !filepath.IsAbs(path) {
					t.Errorf("%s has the path %s, which is not absolute", name, path)
				}
			}
			if strings.Join(names, " ") != c.want {
				t.Errorf("%q have binaries, want %q", names, c.want)
			}
		})
	}
}

func TestAnotherProgramOfAnInstalledProvider(t *testing.T) {
	docker := Provider{Name: "docker", Type: clusterctlv1.InfrastructureProviderType, Version: "v1.0.0"}
	runs := func(label, program string) (d appsv1.Deployment) {
		d.Labels, d.Annotations = map[string]string{
			clusterv1.ProviderNameLabel: label,
		}, map[string]string{podless.BinaryAnnotation: program}
		return d
	}
	for name, c := range map[string]struct {
		all  []appsv1.Deployment
		want string // part of the error; empty: the provider may be installed again
	}{
		"the same program": {
			[]appsv1.Deployment{runs("addon-x", "/opt/x"), runs("infrastructure-docker", "/opt/capd")}, "",
		},
		"another program": {[]appsv1.Deployment{runs("infrastructure-docker", "/opt/old")},
			"infrastructure-docker is installed at v1.0.0 and runs /opt/old: installing it again would not make it " +
				"run /opt/capd"},
		"the program of another provider": {[]appsv1.Deployment{runs("addon-x", "/opt/capd")},
			"infrastructure-docker is installed at v1.0.0 without a binary: installing it again would not make it " +
				"run /opt/capd"},
		"a provider that runs no program": {nil, "without a binary"},
	} {
		t.Run(name, func(t *testing.T) {
			err := other(docker, "v1.0.0", "/opt/capd", c.all)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
