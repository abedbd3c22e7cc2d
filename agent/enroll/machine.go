package enroll

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// uuid matches the format of a UUID.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// placeholders are values that computer makers write in place of a UUID.
var placeholders = map[string]bool{
	"00000000-0000-0000-0000-000000000000": true, "ffffffff-ffff-ffff-ffff-ffffffffffff": true,
	"03000200-0400-0500-0006-000700080009": true, "12345678-1234-5678-90ab-cddeefaabbcc": true,
}

// machineID returns a hash that identifies the computer with this root directory. It hashes the hardware's UUID, which
// survives a reinstallation, or else the installation's id. Hashing keeps both private.
func machineID(root string) (string, error) {
	hardware := strings.ToLower(line(filepath.Join(root, "/sys/class/dmi/id/product_uuid")))
	if uuid.MatchString(hardware) && !placeholders[hardware] {
		return digest("hardware", hardware), nil
	}
	if installed := line(filepath.Join(root, "/etc/machine-id")); len(installed) == 32 {
		return digest("installation", installed), nil
	}
	return "", errors.New(
		"this computer has no identity: /etc/machine-id is missing; run: systemd-machine-id-setup",
	)
}

func line(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func digest(kind, value string) string {
	sum := sha256.Sum256([]byte("capstan " + kind + " " + value))
	return hex.EncodeToString(sum[:])
}
