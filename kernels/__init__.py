"""What is measured: operations, their variants, the devices and libraries they run on."""
