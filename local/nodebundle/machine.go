package nodebundle

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/internal/hint"
)

// machines maps the machine in the header of a program to Go's name of the architecture, for the architectures that
// bundles exist for.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// checkPrograms checks all programs and libraries at a path, which may be a file or a directory. It returns an error if
// one of them is for an architecture other than arch, because the mistake would otherwise show only on the host. It
// ignores other files.
func checkPrograms(path, arch string) error {
	return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		found, err := machineOf(path)
		if err != nil {
			return fmt.Errorf("building a bundle: %w", err)
		}
		if found != "" && found != arch {
			return hint.Errorf("build all of it for "+arch+": kube/stock VERSION DIRECTORY "+arch,
				"%s is a program for %s, and the bundle is for %s", path, found, arch)
		}
		return nil
	})
}

// machineOf returns the architecture of a program: Go's name if bundles exist for the architecture, else a description.
// It returns "" if the file is not a program.
func machineOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var header [20]byte // long enough for the machine in every ELF format
	switch _, err := io.ReadFull(file, header[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "", nil
	case err != nil:
		return "", err
	case string(header[:len(elf.ELFMAG)]) != elf.ELFMAG:
		return "", nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(header[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	machine := elf.Machine(order.Uint16(header[18:]))
	name := machines[machine]
	if name == "" || order != binary.LittleEndian || elf.Class(header[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return fmt.Sprintf("%s (%s, %s)", machine, elf.Class(header[elf.EI_CLASS]), elf.Data(header[elf.EI_DATA])), nil
	}
	return name, nil
}
