package nodebundle

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/hint"
)

// header returns the beginning of a program.
func header(class elf.Class, data elf.Data, machine elf.Machine) []byte {
	b := make([]byte, 64)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION] = byte(class), byte(data), 1
	b[16], b[18], b[19] = byte(elf.ET_EXEC), byte(machine), byte(machine>>8)
	if data == elf.ELFDATA2MSB {
		b[16], b[17], b[18], b[19] = 0, b[16], byte(machine>>8), byte(machine)
	}
	return b
}

// TestAMixedBundleIsRefused: if one program is for another architecture, wherever it is, nothing is written.
func TestAMixedBundleIsRefused(t *testing.T) {
	other, machine := "arm64", elf.EM_AARCH64
	if runtime.GOARCH == "arm64" {
		other, machine = "amd64", elf.EM_X86_64
	}
	foreign := header(elf.ELFCLASS64, elf.ELFDATA2LSB, machine)
	for name, c := range map[string]struct {
		path string
		data []byte
		is   string
	}{
		"a program":                      {"bin/runc", foreign, other},
		"a plugin":                       {"cni/ptp", foreign, other},
		"an image's program":             {"images/pause/pause", foreign, other},
		"a library":                      {"images/api/usr/lib/libx.so.1", foreign, other},
		"the program that connects pods": {"../net", foreign, other},
		"another byte order": {
			"bin/runc", header(elf.ELFCLASS64, elf.ELFDATA2MSB, elf.EM_PPC64), "EM_PPC64 (ELFCLASS64, ELFDATA2MSB)",
		},
		"a program of 32 bits": {
			"bin/runc", header(elf.ELFCLASS32, elf.ELFDATA2LSB, elf.EM_X86_64), "EM_X86_64 (ELFCLASS32",
		},
		"an unknown machine": {
			"bin/runc", header(elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_RISCV), "EM_RISCV (",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "stock")
			if err := os.Rename(stock(t), dir); err != nil {
				t.Fatal(err)
			}
			net := self(t)
			path := filepath.Join(dir, c.path)
			if strings.HasSuffix(path, "/net") {
				net = path
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.data, 0o755); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "bundle.tar.gz")
			_, err := Build(dir, net, out, func(string) {})
			if err == nil || !strings.Contains(err.Error(), path+" is a program for "+c.is) ||
				!strings.Contains(hint.Of(err), "kube/stock VERSION DIRECTORY "+runtime.GOARCH) {
				t.Errorf("got error %v with the hint %q", err, hint.Of(err))
			}
			if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

// TestMachineOf: machineOf finds no architecture in a file that is not a program, even if the file is shorter than a
// header.
func TestMachineOf(t *testing.T) {
	if got, err := machineOf(self(t)); err != nil || got != runtime.GOARCH {
		t.Errorf("the architecture of this test program is %q, error %v", got, err)
	}
	for text, want := range map[string]string{
		"": "", "#!/bin/sh\n": "", "#!/bin/sh\n# longer than a header is\n": "", elf.ELFMAG: "",
		string(header(elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_AARCH64)): "arm64",
		string(header(elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_X86_64)):  "amd64",
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := machineOf(path); err != nil || got != want {
			t.Errorf("the architecture of %.10q is %q, error %v", text, got, err)
		}
	}
	if _, err := machineOf(filepath.Join(t.TempDir(), "gone")); err == nil {
		t.Error("no error for a missing file")
	}
}
