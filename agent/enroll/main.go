package enroll

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// ticketLimit bounds a ticket or credential that is read, in bytes.
const ticketLimit = 64 << 10

const usage = `capstan-agent enroll makes this computer a host of a plane.

  capstan-agent enroll --from FILE                                    # written by capstan host token create -o file
  capstan-agent enroll --server URL --ca-hash HASH --token-file FILE  # or - for the standard input

Flags:
`

// Main runs "capstan-agent enroll" and returns the exit code.
func Main(ctx context.Context, version string, args []string, in io.Reader, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("capstan-agent enroll", flag.ContinueOnError)
	flags.SetOutput(errOut)
	from := flags.String(
		"from",
		"",
		"`file` with all settings, written by capstan host token create -o file; - for the standard input",
	)
	var t enrolment.Ticket
	flags.StringVar(&t.Server, "server", "", "`URL` of the plane's enrolment server")
	flags.StringVar(
		&t.CAHash,
		"ca-hash",
		"",
		"`hash` of the public key that signs the server's certificate, sha256:...",
	)
	tokenFile := flags.String("token-file", "", "`file` with the credential; - for the standard input")
	flags.StringVar(
		&t.Host,
		"name",
		"",
		"`name` of the host (default: the computer's name, or the only one that the credential allows)",
	)
	o := Options{Version: version, Out: errOut}
	flags.StringVar(
		&o.ConfigPath,
		"config",
		config.DefaultPath,
		"path of the `file` to which the agent's configuration is written",
	)
	flags.StringVar(
		&o.StateDir,
		"state-dir",
		"",
		"`directory` of the agent's state (default: that of the configuration, else "+
			config.DefaultStateDir+")",
	)
	flags.StringVar(&o.Bundles, "bundles", "", "source of a node's programs: plane, directory or packages (default: the "+
		"host's own if it has kubeadm and kubelet, else the plane)")
	flags.DurationVar(&o.Wait, "wait", 0, "how long to retry while the plane can't be reached or is busy")
	noService := flags.Bool("no-service", false, "don't install a systemd unit; start the agent by other means")
	flags.Usage = func() { fmt.Fprint(errOut, usage); flags.PrintDefaults() }
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(
			errOut,
			"capstan-agent enroll: unknown argument %q; see capstan-agent enroll --help\n",
			flags.Arg(0),
		)
		return 2
	}
	err := func() (err error) {
		if o.Ticket, err = ticket(t, *from, *tokenFile, in); err != nil {
			return err
		}
		if !*noService {
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			o.Service = Systemd{Program: program}
		}
		return Run(ctx, o)
	}()
	if err != nil {
		fmt.Fprintln(errOut, "capstan-agent:", err)
		return 1
	}
	return 0
}

// ticket returns the ticket to enroll with: from flags, or from a file. Flags override the values in the file.
func ticket(flags enrolment.Ticket, from, tokenFile string, in io.Reader) (t enrolment.Ticket, err error) {
	switch {
	case from != "" && tokenFile != "":
		return t, errors.New("the file of --from has the credential: leave --token-file out")
	case from == "" && tokenFile == "":
		return t, errors.New(
			"give the file with the credential: --from FILE, or --token-file FILE; it can't be an argument, because everybody " +
				"on this computer can read arguments",
		)
	}
	if from != "" {
		data, err := secretFile(from, in)
		if err != nil {
			return t, err
		}
		decoder := yaml.NewDecoder(strings.NewReader(string(data)))
		decoder.KnownFields(true)
		if decoder.Decode(&t) != nil { // the parser's message may quote the credential
			return t, fmt.Errorf("%s was not written by capstan host token create -o file", from)
		}
	} else {
		data, err := secretFile(tokenFile, in)
		if err != nil {
			return t, err
		}
		t.Credential = strings.TrimSpace(string(data))
	}
	for _, field := range []struct{ into, flag *string }{
		{&t.Server, &flags.Server}, {&t.CAHash, &flags.CAHash}, {&t.Host, &flags.Host},
	} {
		if *field.flag != "" {
			*field.into = *field.flag
		}
	}
	if t.Server == "" || t.CAHash == "" {
		return t, errors.New("--server and --ca-hash are needed to identify the plane: capstan host token create prints both")
	}
	return t, nil
}

// secretFile reads a file that only its owner may read, or standard input.
func secretFile(path string, in io.Reader) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading the credential: %w", err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("reading the credential: %w", err)
		}
		if perm := info.Mode().Perm(); info.Mode().IsRegular() && perm&0o077 != 0 {
			return nil, fmt.Errorf("%s holds a credential but its mode is %#o; run: chmod 0600 %s", path, perm, path)
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, ticketLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the credential: %w", err)
	}
	return data, nil
}
