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

// machines are the names of architectures in programs.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// checkPrograms returns an error if a program or library at path, a file or directory, is not for architecture arch.
// Otherwise a bundle for another architecture could contain a program of this computer and fail only on the host.
// checkPrograms ignores files that are not programs.
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

// machineOf returns the architecture of a program, by Go's name if bundles exist for it, or "" if the file is not a
// program.
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
