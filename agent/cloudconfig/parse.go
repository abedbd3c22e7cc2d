package cloudconfig

import (
	"bytes"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/agent/fault"
)

const (
	// sizeLimit bounds bootstrap data, in bytes, both before and after variables are filled in; a Secret holds 1 MiB.
	sizeLimit = 2 << 20
	// nodeLimit bounds the number of values in the document. Each costs more than 150 bytes of memory, however short it
	// is.
	nodeLimit = 100_000
	// textLimit bounds the total size of all values, in bytes, counting the target of an alias each time. Data without
	// aliases never reaches it.
	textLimit = 16 << 20
	// entryCost is what each entry of a list or mapping costs in addition to its text, in bytes.
	entryCost = 32
	// unpackedLimit bounds the total uncompressed size of all compressed files, in bytes.
	unpackedLimit = 64 << 20
)

var (
	templateHeader = regexp.MustCompile(`(?i)^##\s*template\s*:\s*(\S*)\s*$`)
	yamlLine       = regexp.MustCompile(`line (\d+)`)
)

// Parse parses cloud-config. Data that starts with "## template: jinja" is a template, which may refer to vars (see
// Variables).
func Parse(data []byte, vars map[string]any) (*Config, error) {
	if len(data) > sizeLimit {
		return nil, fault.New(nil, "the bootstrap data is larger than %d bytes", sizeLimit)
	}
	text, err := body(string(data), vars)
	if err != nil {
		return nil, err
	}
	if values(text) > nodeLimit {
		return nil, fault.New(nil, "the bootstrap data has more than %d values; put files into it as base64 or gzip+base64",
			nodeLimit)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		if line := yamlLine.FindStringSubmatch(err.Error()); line != nil {
			return nil, fault.New(err, "the bootstrap data is not valid YAML near line %s", line[1])
		}
		return nil, fault.New(err, "the bootstrap data is not valid YAML")
	}
	config := &Config{}
	if len(doc.Content) == 0 {
		return config, nil
	}
	r := &reader{}
	r.config(doc.Content[0], config)
	return config, r.err
}

// body returns the cloud-config without its template header and with variables filled in. Header lines become empty
// lines, so that line numbers stay the same.
func body(text string, vars map[string]any) (string, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	first, rest, _ := strings.Cut(text, "\n")
	if header := templateHeader.FindStringSubmatch(first); header != nil {
		if !strings.EqualFold(header[1], "jinja") {
			return "", fault.New(nil, "the bootstrap data is a template of an unknown kind: only jinja is supported")
		}
		rendered, err := render("\n"+rest, vars)
		if err != nil {
			return "", err
		}
		text = rendered
		first, _, _ = strings.Cut(strings.TrimPrefix(rendered, "\n"), "\n")
	}
	if strings.TrimSpace(first) != "#cloud-config" {
		return "", fault.New(nil,
			"the bootstrap data is not cloud-config: it must start with #cloud-config; set the bootstrap provider's format to "+
				"cloud-config")
	}
	return text, nil
}

// values returns an upper bound of the number of values in a YAML document, before it is parsed: each value but the
// first begins or ends at one of the marks below. Marks inside texts count, too.
func values(text string) int {
	count := 0
	for i := range len(text) {
		switch c := text[i]; c {
		case ',', '[', '{':
			count++
		case ':', '-', '?':
			if i+1 == len(text) || strings.IndexByte(whiteSpace, text[i+1]) >= 0 {
				count++
			}
		}
	}
	return count
}

// config parses the whole document.
func (r *reader) config(n *yaml.Node, c *Config) {
	r.fields(n, "the bootstrap data", map[string]func(*yaml.Node){
		"bootcmd":     func(n *yaml.Node) { c.BootCommands = r.commands(n, "bootcmd") },
		"write_files": func(n *yaml.Node) { each(r, n, "write_files", &c.Files, r.file) },
		"disk_setup":  func(n *yaml.Node) { c.Disks = r.disks(n) },
		"fs_setup":    func(n *yaml.Node) { each(r, n, "fs_setup", &c.Filesystems, r.filesystem) },
		"mounts":      func(n *yaml.Node) { each(r, n, "mounts", &c.Mounts, r.mount) },
		"users":       func(n *yaml.Node) { each(r, n, "users", &c.Users, r.user) },
		"ntp":         func(n *yaml.Node) { c.NTP = r.ntp(n) },
		"runcmd":      func(n *yaml.Node) { c.Commands = r.commands(n, "runcmd") },
	})
}

func (r *reader) commands(n *yaml.Node, section string) []Command {
	var commands []Command
	for _, item := range r.list(n, section) {
		if r.err != nil {
			return nil
		}
		if isNull(item) {
			continue
		}
		if item.Kind == yaml.SequenceNode {
			var quoted []string
			for _, part := range r.texts(item, section) {
				quoted = append(quoted, Quote(part))
			}
			commands = append(commands, Command{Script: strings.Join(quoted, " ")})
			continue
		}
		commands = append(commands, Command{Script: r.text(item, section)})
	}
	return commands
}

// Quote quotes text so that a POSIX shell takes it literally, as one word.
func Quote(text string) string {
	var b bytes.Buffer
	b.WriteByte('\'')
	for _, c := range []byte(text) {
		if c == '\'' {
			b.WriteString(`'\''`)
			continue
		}
		b.WriteByte(c)
	}
	b.WriteByte('\'')
	return b.String()
}
