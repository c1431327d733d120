#!/usr/bin/env python3
"""banyan_info says of real GPUs what nvidia-smi says, and less where a driver is hidden from it; it never crashes.

usage: info_test.py BANYAN_INFO     exit status 77 where there is no GPU
"""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import gpu_here

INFO = None
NVML, CUDA = 'libnvidia-ml.so.1', 'libcuda.so.1'
# As sysfs and we write the generations of PCI.
SPEEDS = {1: '2.5 GT/s', 2: '5 GT/s', 3: '8 GT/s', 4: '16 GT/s', 5: '32 GT/s', 6: '64 GT/s'}


def run(*words, **variables):
    """The output of banyan_info, which ends by itself and well, or with findings."""
    done = subprocess.run([INFO, *words], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, **variables})
    if done.returncode not in ((0, 1) if '--doctor' in words else (0,)):
        raise AssertionError(f'{words} {variables}: exit status {done.returncode}: {done.stderr}')
    return done.stdout


def gpus(**variables):
    """{bus id: what --topo --json says} of NVIDIA's."""
    nodes = json.loads(run('--topo', '--json', **variables))['nodes']
    return {gpu['bus_id']: gpu for node in nodes for gpu in node['gpus'] if gpu.get('vendor') == 'NVIDIA'}


def bus_id(text):
    """NVML's 00000000:0C:00.0 as the kernel writes it."""
    domain, rest = text.lower().split(':', 1)
    return f'{int(domain, 16):04x}:{rest}'


class Hidden:
    """A folder for LD_LIBRARY_PATH whose libraries are none: who opens one by its name fails."""

    def __init__(self, *names):
        self.names = names

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        for name in self.names:
            (pathlib.Path(self.folder.name) / name).write_text('no library\n')
        path = os.environ.get('LD_LIBRARY_PATH')
        return {'LD_LIBRARY_PATH': self.folder.name + (f':{path}' if path else '')}

    def __exit__(self, *_):
        self.folder.cleanup()


class Info(unittest.TestCase):
    maxDiff = None

    def test_topology_is_that_of_nvidia_smi(self):
        if shutil.which('nvidia-smi') is None:
            print('note: there is no nvidia-smi to compare with')
            return
        fields = 'index,pci.bus_id,name,memory.total,uuid,compute_cap,pcie.link.gen.max,pcie.link.width.max'
        said = subprocess.run(['nvidia-smi', f'--query-gpu={fields}', '--format=csv,noheader,nounits'],
                              capture_output=True, text=True, check=True, timeout=60).stdout
        found = gpus()
        links = {link['from'].split('/')[-1]: link for link in json.loads(run('--topo', '--json'))['links']}
        self.assertTrue(said.strip())
        for line in said.strip().split('\n'):
            index, bus, name, memory, uuid, capability, generation, width = (word.strip() for word in line.split(','))
            gpu = found[bus_id(bus)]
            self.assertEqual(gpu['name'], f'gpu{index}')
            self.assertEqual(gpu['model'], name)
            self.assertEqual(gpu['memory'] >> 20, int(memory))
            self.assertEqual(gpu['guid'], uuid)
            self.assertEqual(gpu['capability'], int(capability.replace('.', '')))
            # nvidia-smi's is what the GPU and its slot can do together, sysfs's what the GPU can do.
            link = links[gpu['name']]['text']
            wide, speed = link.split(' ', 1)
            self.assertGreaterEqual(int(wide[1:]), int(width), link)
            self.assertIn(speed, [SPEEDS[each] for each in SPEEDS if each >= int(generation)], link)

    def test_a_driver_that_is_hidden_takes_only_what_it_says(self):
        whole = gpus()
        self.assertTrue(whole)
        for hidden, variables in (((NVML,), {}), ((CUDA,), {}), ((), {'CUDA_VISIBLE_DEVICES': ''})):
            with Hidden(*hidden) as path, self.subTest(hidden=hidden, variables=variables):
                seen = gpus(**path, **variables)
                self.assertEqual(seen.keys(), whole.keys())
                for bus, gpu in seen.items():
                    for member in ('model', 'guid', 'capability'):
                        self.assertEqual(gpu[member], whole[bus][member])
                    self.assertAlmostEqual(gpu['memory'] / whole[bus]['memory'], 1, delta=0.05)
        in_sys = {bus for bus in whole if os.path.exists(f'/sys/bus/pci/devices/{bus}')}
        for hidden, variables in (((NVML, CUDA), {}), ((NVML,), {'CUDA_VISIBLE_DEVICES': ''})):
            with Hidden(*hidden) as path, self.subTest(hidden=hidden, variables=variables):
                seen = gpus(**path, **variables)
                self.assertLessEqual(in_sys, seen.keys())
                for gpu in seen.values():
                    self.assertNotIn('guid', gpu)
                self.assertIn('banyan', run(**path, **variables))
                self.assertIn('note', run('--doctor', **path, **variables))

    def test_doctor_finds_nothing_wrong_with_the_gpus(self):
        said = json.loads(run('--doctor', '--json'))
        names = {gpu['name'] for gpu in gpus().values()}
        for finding in said['findings']:
            if finding['subject'] in names or finding['id'].startswith('gpu.'):
                self.assertEqual(finding['severity'], 'note', finding)
        for pair in said['gpudirect']:
            self.assertIn(pair['gpu'], names)

    def test_nccl_gets_every_gpu(self):
        system = xml.etree.ElementTree.fromstring(run('--topo', '--nccl'))
        written = {pci.get('busid'): pci for pci in system.iter('pci') if pci.find('gpu') is not None}
        for bus, gpu in gpus().items():
            self.assertIn(bus, written)
            self.assertEqual(written[bus].find('gpu').get('sm'), str(gpu['capability']))
            self.assertEqual(written[bus].find('gpu').get('dev'), str(gpu['index']))


if __name__ == '__main__':
    INFO = sys.argv.pop(1)
    if why := gpu_here.why_none():
        print(f'skipped: no GPU: {why}')
        sys.exit(77)
    unittest.main()
