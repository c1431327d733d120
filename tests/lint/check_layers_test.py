#!/usr/bin/env python3
"""check_layers.py finds what it is there to find: each wrong tree here must be refused for its reason."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import pathlib
import sys
import tempfile

import check_layers

# What uses every permission.
USES = {f'{folder}/uses_{into.replace("/", "_")}.cc': f'#include "{into}/used.h"\n'
        for folder, allowed in check_layers.ALLOWED.items() for into in allowed}
USED = {f'{folder}/used.h': '' for folder in check_layers.ALLOWED}
GOOD = {**USES, **USED,
        'include/banyan/types.h': '#include <cstddef>\n',
        'transports/shm/shm.cc': '#include "banyan/types.h"\n#include "src/base/clock.h"\n',
        'src/base/clock.h': '// not system_clock\n',
        'src/base/date.cc': 'auto t = std::chrono::system_clock::now();\n',
        'src/engine/engine.cc': '#include "transports/quick.h"\n', 'transports/quick.h': ''}
WRONG = [
    ('ALLOWED: transports/shm/ may include from transports/, and nothing there does', {'transports/shm/uses_transports.cc': ''}),
    ('ALLOWED: src/c_api/ may include from src/tuning/, and nothing there does', {'src/c_api/uses_src_tuning.cc': ''}),
    ('must not include algorithms/ring.h', {'transports/shm/shm.cc': '#include "algorithms/ring.h"\n', 'algorithms/ring.h': ''}),
    ('must not include src/engine/engine.h', {'src/base/log.h': '#include "src/engine/engine.h"\n', 'src/engine/engine.h': ''}),
    ('must not include src/c_api/x.h', {'src/engine/engine.h': '#include "src/c_api/x.h"\n', 'src/c_api/x.h': ''}),
    ('must not include src/base/clock.h', {'examples/a.cc': '#include "src/base/clock.h"\n'}),
    ('must not include src/engine/a.h', {'transports/shm/shm.cc': '#include <src/engine/a.h>\n', 'src/engine/a.h': ''}),
    ('must not include transports/shm/ring.h',
     {'src/engine/engine.h': '#include "transports/shm/ring.h"\n', 'transports/shm/ring.h': ''}),
    ('src/ must not include src/engine/engine.h', {'src/a.cc': '#include "src/engine/engine.h"\n', 'src/engine/engine.h': ''}),
    ('src/engine/c.h: runs back up to src/liveness/a.h',
     {'src/liveness/a.h': '#include "src/engine/b.h"\n#include "src/engine/d.h"\n', 'src/engine/b.h': '',
      'src/engine/c.h': '#include "src/liveness/a.h"\n', 'src/engine/d.h': ''}),
    ('no file engine.h', {'src/engine/plans.cc': '#include "engine.h"\n', 'src/engine/engine.h': ''}),
    ('no file ../algorithms/ring.h', {'transports/shm/shm.cc': '#include "../algorithms/ring.h"\n', 'algorithms/ring.h': ''}),
    ('no file base/../engine.h', {'src/base/log.h': '#include <base/../engine.h>\n', 'src/engine/engine.h': ''}),
    ('what is installed', {'transports/framed/ucx.cc': '#ifdef HAVE_UCX\n#endif\n'}),
    ('include cycle: src/engine/a.h -> src/engine/b.h -> src/engine/a.h',
     {'src/engine/a.h': '#include "src/engine/b.h"\n', 'src/engine/b.h': '#include "src/engine/a.h"\n'}),
    ('belongs in a .cc', {'src/a.h': '#include <openssl/hmac.h>\n'}),
    ('included by 2 files', {'src/a.cc': '#include <openssl/hmac.h>\n', 'src/b.cc': '#include <openssl/evp.h>\n'}),
    ('wall clock', {'bench/a.cc': 'auto t = std::chrono::system_clock::now();\n'}),
    ('wall clock', {'src/base/date.h': 'auto t = std::chrono::system_clock::now();\n'}),
    ('/dev/shm', {'src/base/date.cc': 'open("/dev/shm/banyan");\n'}),
    ('/dev/shm', {'transports/a.cc': 'open("/dev/shm/banyan");\n'}),
]


def verdict(files):
    """(status, what was printed) for a tree of these files."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = check_layers.main(root)
        return status, output.getvalue()


def main():
    bad = 0
    for reason, files in [(None, {}), *WRONG]:
        status, output = verdict({**GOOD, **files})
        if (status == 0) != (reason is None) or (reason or '') not in output:
            print(f'expected {reason or "no complaint"}, got status {status}: {output}')
            bad += 1
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
