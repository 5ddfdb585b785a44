package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

// A setting is a flag that can be given in the environment and in a
// configuration file as well: --kill-after is PAWL_KILL_AFTER and kill_after.
type setting string

var settings = []setting{
	"url", "password-file", "password-command", "color", "log-format",
	"ttl", "wait", "kill-after", "kill-signal", "max-runtime", "min-hold", "on-lost", "leftovers", "pgroup", "show-command",
}

func (s setting) variable() string { return "PAWL_" + strings.ToUpper(s.key()) }
func (s setting) key() string      { return strings.ReplaceAll(string(s), "-", "_") }

// A value is what a setting was given, and where.
type value struct {
	text []string // one, except for url
	from string   // as messages name it: --ttl, PAWL_TTL, or a file
}

// settle gives the flags of cmd that were not typed the values that the
// environment or the configuration have for them. A value that can't be used is
// a failure, and never passed over.
func (p *program) settle(cmd *cobra.Command) error {
	if err := p.settleQuietly(cmd); err != nil {
		return err
	}
	p.warnOfUnknownVariables()
	return nil
}

func (p *program) settleQuietly(cmd *cobra.Command) error {
	conf, err := p.readConfig()
	if err != nil {
		return err
	}
	p.values = map[setting]value{}
	for _, s := range settings {
		v, ok := p.lookup(s, cmd.Flags(), conf)
		if !ok {
			continue
		}
		p.values[s] = v
		flag := cmd.Flags().Lookup(string(s))
		if flag == nil || flag.Changed || s == "wait" && cmd.Flags().Changed("no-wait") {
			continue
		}
		if s == "url" {
			p.urls = v.text
			continue
		}
		if err := flag.Value.Set(v.text[0]); err != nil {
			return fail(exitConfig, "%s %s: %v", v.from, plain.Quote(v.text[0]), err)
		}
		flag.Changed = true
	}
	return p.checkStyle()
}

// lookup returns the value of s: what was typed beats the environment, and that
// beats the files.
func (p *program) lookup(s setting, flags *pflag.FlagSet, conf *config) (value, bool) {
	if flag := flags.Lookup(string(s)); flag != nil && flag.Changed {
		if s == "url" {
			return value{p.urls, "--url"}, true
		}
		return value{[]string{flag.Value.String()}, "--" + string(s)}, true
	}
	if text := os.Getenv(s.variable()); text != "" {
		return value{[]string{text}, s.variable()}, true
	}
	v, ok := conf.values[s]
	return v, ok
}

// A config is what the files have to say.
type config struct {
	files  []string // that were read, the strongest first
	values map[setting]value
}

// readConfig reads the file of --config or PAWL_CONFIG, or else the user's, and
// beneath that the machine's. None is read from the working directory, which may
// be anybody's, and none is carried out.
func (p *program) readConfig() (*config, error) {
	conf := &config{values: map[setting]value{}}
	profile, from := p.profile, "--profile"
	if profile == "" {
		profile, from = os.Getenv("PAWL_PROFILE"), "PAWL_PROFILE"
	}
	found := profile == ""
	for _, name := range p.configFiles() {
		doc, err := readTOML(name.path)
		if errors.Is(err, fs.ErrNotExist) && !name.asked {
			continue
		}
		if err != nil {
			return nil, fail(exitConfig, "cannot use the configuration %s: %s", plain.Text(name.path), err)
		}
		conf.files = append(conf.files, name.path)
		tables := []map[string]any{doc}
		if profiles, ok := doc["profile"].(map[string]any); ok && profile != "" {
			if table, ok := profiles[profile].(map[string]any); ok {
				found = true
				tables = []map[string]any{table, doc}
			}
		}
		for i, table := range tables {
			where := plain.Text(name.path)
			if len(tables) == 2 && i == 0 {
				where += " [profile." + plain.Text(profile) + "]"
			}
			if err := conf.add(table, where, i == len(tables)-1); err != nil {
				return nil, err
			}
		}
	}
	if !found {
		return nil, fail(exitConfig, "%s %s: no configuration has a [profile.%s] (read: %s)", from, plain.Quote(profile), plain.Text(profile),
			plain.Text(strings.Join(append(conf.files, "none")[:max(1, len(conf.files))], ", ")))
	}
	return conf, nil
}

type configFile struct {
	path  string
	asked bool // by name: it has to be there
}

func (p *program) configFiles() []configFile {
	if p.configFile != "" {
		return []configFile{{p.configFile, true}}
	}
	if name := os.Getenv("PAWL_CONFIG"); name != "" {
		return []configFile{{name, true}}
	}
	var files []configFile
	if dir, err := os.UserConfigDir(); err == nil && filepath.IsAbs(dir) {
		files = append(files, configFile{filepath.Join(dir, "pawl", "config.toml"), false})
	}
	return append(files, configFile{"/etc/pawl/config.toml", false})
}

// readTOML reads a file. Its errors tell the line and never what stands there:
// that may be a password.
func readTOML(name string) (map[string]any, error) {
	b, err := readAtMost(name, 1<<20)
	if err != nil {
		return nil, err
	}
	doc := map[string]any{}
	if _, err := toml.Decode(string(b), &doc); err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("line %d is not TOML", syntax.Position.Line)
		}
		return nil, errors.New("it is not TOML")
	}
	return doc, nil
}

// add takes what table has and conf has not.
func (c *config) add(table map[string]any, where string, top bool) error {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if key == "profile" && top {
			continue
		}
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key() == key })
		if i < 0 {
			known := make([]string, len(settings))
			for i, s := range settings {
				known[i] = s.key()
			}
			return fail(exitConfig, "%s has %s, which is no setting%s", where, plain.Quote(key), suggestion(key, known))
		}
		s := settings[i]
		text, ok := settingText(table[key], s == "url")
		if !ok {
			return fail(exitConfig, "%s: %s is not a text, a number or a truth value%s", where, key, map[bool]string{true: ", nor a list of texts"}[s == "url"])
		}
		if _, set := c.values[s]; !set {
			c.values[s] = value{text, where}
		}
	}
	return nil
}

func settingText(v any, list bool) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case int64:
		return []string{strconv.FormatInt(v, 10)}, true
	case float64:
		return []string{strconv.FormatFloat(v, 'g', -1, 64)}, true
	case bool:
		return []string{strconv.FormatBool(v)}, true
	case []any:
		var all []string
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, false
			}
			all = append(all, text)
		}
		return all, list && len(all) > 0
	}
	return nil, false
}

// otherVariables are those of pawl that are no settings. The last row is for the
// tests of pawl itself.
var otherVariables = []string{
	"PAWL_CONFIG", "PAWL_PROFILE", "PAWL_PASSWORD", "PAWL_SENTINEL_PASSWORD", "PAWL_HANDLE",
	"PAWL_LOCK", "PAWL_LOCKS", "PAWL_FENCE", "PAWL_HOLDER", "PAWL_TTL_MS", "PAWL_BACKEND", "PAWL_MODE",
	"PAWL_REQUIRE", "PAWL_SOAK", "PAWL_REDIS_SERVER", "PAWL_ETCD_SERVER", "PAWL_ETCDCTL",
}

// warnOfUnknownVariables says which variables are not understood: a name that
// was mistyped has no effect otherwise, and a store is not the one that was meant.
func (p *program) warnOfUnknownVariables() {
	known := slices.Clone(otherVariables)
	for _, s := range settings {
		known = append(known, s.variable())
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "PAWL_") && !slices.Contains(known, name) {
			p.note("%s is set, and means nothing to pawl%s", plain.Text(name), suggestion(name, known))
		}
	}
}

// suggestion returns what was probably meant by name.
func suggestion(name string, known []string) string {
	best, least := "", 4 // more than three letters apart is another word
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; do you mean " + best + "?"
}

// distance returns how many letters have to be changed, added or removed to get
// from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
