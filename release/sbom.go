package release

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// bill returns the software bill of materials (CycloneDX, JSON) of Go binaries. It lists exactly the modules that the
// linker recorded in them.
func bill(version string, binaries []string, date time.Time) ([]byte, error) {
	modules, toolchain := map[debug.Module]bool{}, ""
	for _, file := range binaries {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading what %s is made of: %w", file, err)
		}
		toolchain = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			// The bundle may contain another version of a module than our own programs.
			modules[debug.Module{Path: m.Path, Version: m.Version}] = true
		}
	}
	components := []cyclonedx.Component{component("stdlib", toolchain)}
	byName := func(a, b debug.Module) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version))
	}
	for _, m := range slices.SortedFunc(maps.Keys(modules), byName) {
		components = append(components, component(m.Path, m.Version))
	}
	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{
		Timestamp: date.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "capstan", Type: cyclonedx.ComponentTypeApplication, Name: "capstan", Version: version,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	b.Components = &components
	plain, err := encodeBill(b)
	if err != nil {
		return nil, err
	}
	// The same content gets the same serial number.
	b.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, plain).URN()
	return encodeBill(b)
}

func component(name, version string) cyclonedx.Component {
	purl := "pkg:golang/" + name + "@" + version
	return cyclonedx.Component{
		BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl,
	}
}

func encodeBill(b *cyclonedx.BOM) ([]byte, error) {
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(b); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// sums lists the SHA-256 checksums of files, sorted by name, in the format of sha256sum -c.
func sums(files Files) []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	return out.Bytes()
}
